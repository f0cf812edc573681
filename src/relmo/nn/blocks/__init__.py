"""Modules that several task models share."""
