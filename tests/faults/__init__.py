"""Faults on purpose: kills, full disks, flipped bits, clock jumps, two writers, closed pipes.

`make faults` runs them all and writes the table in docs/faults.md; `pytest -m slow tests/faults`
runs a few of each.
"""
