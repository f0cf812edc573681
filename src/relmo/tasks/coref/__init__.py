"""Coreference: a document in, the groups of its mentions that mean the same out."""
