"""`python -m relmo` is the `relmo` command."""

from relmo.cli.main import main

main()
