"""One label for a text: sentiment, or any classes of a table."""
