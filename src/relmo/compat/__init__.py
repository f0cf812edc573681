"""Interfaces of other libraries, on top of relmo."""
