"""`python -m relmo.tasks.lm`: pretraining where only torch, numpy and safetensors are installed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from relmo.tasks.lm.pretrain import pretrain
from relmo.tasks.lm.settings import load_recipe


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(prog="python -m relmo.tasks.lm")
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--set", action="append", default=[], metavar="section.key=value")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--storage", default="float32", choices=["float32", "int8"])
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    pretrain(
        load_recipe(args.recipe, args.set, args.minutes),
        args.data,
        args.output,
        resume=args.resume,
        cache_folder=args.cache,
        storage=args.storage,
        report=lambda line: print(json.dumps(line), flush=True),  # noqa: T201
    )


if __name__ == "__main__":
    main()
