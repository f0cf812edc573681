"""`python -m relmo.tasks`: training where only torch, numpy, safetensors and h5py are installed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from relmo.errors import RelmoError, exit_code
from relmo.tasks.run import load_task_recipe, train_task


def main(args: Sequence[str] | None = None) -> None:
    """Parse the command line and train; metrics and, last, the results are lines of JSON."""
    parsed = _parser().parse_args(args)
    try:
        scores = train_task(
            parsed.task,
            load_task_recipe(parsed.task, parsed.recipe, parsed.set),
            parsed.data,
            parsed.output,
            elmo=None if parsed.elmo == "none" else parsed.elmo,
            vectors=parsed.vectors,
            cache=parsed.cache,
            resume=parsed.resume,
            report=lambda line: print(json.dumps(line), flush=True),  # noqa: T201
        )
    except RelmoError as error:
        print(f"relmo: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(exit_code(error))
    print(json.dumps(scores))  # noqa: T201


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m relmo.tasks")
    train = parser.add_subparsers(dest="verb", required=True).add_parser("train")
    train.add_argument("task")
    train.add_argument("--data", type=Path, required=True)
    train.add_argument("--output", type=Path, required=True)
    train.add_argument("--elmo", default="relmo-en-small", metavar="FOLDER|none")
    train.add_argument("--vectors", type=Path)
    train.add_argument("--cache", type=Path)
    train.add_argument("--recipe")
    train.add_argument("--set", action="append", default=[], metavar="section.key=value")
    train.add_argument("--resume", action="store_true")
    return parser


if __name__ == "__main__":
    main()
