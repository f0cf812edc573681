"""Pretraining: two language models, one from the left, one from the right."""
