"""Inputs that once failed, by target."""

CASES: dict[str, list[bytes]] = {}
