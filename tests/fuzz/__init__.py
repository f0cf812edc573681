"""Hostile input: mutated text, files and requests must give a result or an error in words.

`make fuzz` runs a million inputs and writes the table in docs/fuzzing.md; the fast suite runs some
hundred of each target with fixed seeds, and every input that once found a bug (cases.py).
"""
