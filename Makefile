PYTHON := .venv/bin/python

.PHONY: install fix check test faults fuzz
install:
	python3 -m venv .venv
	.venv/bin/pip install -c constraints.txt -e '.[dev]'
fix:
	$(PYTHON) -m ruff check --fix src tests scripts
	$(PYTHON) -m ruff format src tests scripts
check:
	$(PYTHON) -m ruff check src tests scripts
	$(PYTHON) -m ruff format --check src tests scripts
	$(PYTHON) -m mypy
test:
	$(PYTHON) -m pytest
faults:  # half an hour; as root on Linux also with full and read-only disks
	$(PYTHON) -m tests.faults --output docs/faults.md
fuzz:  # a million inputs
	$(PYTHON) -m tests.fuzz --output docs/fuzzing.md
