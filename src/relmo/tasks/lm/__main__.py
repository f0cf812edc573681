"""`python -m relmo.tasks.lm`: pretraining where only torch, numpy and safetensors are installed."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from relmo.errors import RelmoError, exit_code
from relmo.tasks.lm.pretrain import pretrain
from relmo.tasks.lm.settings import load_recipe
from relmo.weights.native import Native


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
    parser.add_argument("--init", type=Path, help="folder of a model in relmo's own layout")
    args = parser.parse_args()
    try:
        pretrain(
            load_recipe(args.recipe, args.set, args.minutes),
            args.data,
            args.output,
            resume=args.resume,
            init=None if args.init is None else Native().read(args.init),
            cache_folder=args.cache,
            storage=args.storage,
            report=lambda line: print(json.dumps(line), flush=True),  # noqa: T201
        )
    except RelmoError as error:
        print(f"relmo: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
