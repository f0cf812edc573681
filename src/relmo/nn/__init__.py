"""Modules: they own parameters and never open a file."""
