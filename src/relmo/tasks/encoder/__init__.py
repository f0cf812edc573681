"""A vector for a whole text, trained on pairs of texts of which one answers the other."""
