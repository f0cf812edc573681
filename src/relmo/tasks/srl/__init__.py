"""Semantic roles: a sentence and its predicate in, who did what to whom out."""
