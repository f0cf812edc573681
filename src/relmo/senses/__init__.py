"""Senses of a word in a corpus, and how they change between two."""
