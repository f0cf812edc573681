"""Perplexity of a task's text before and after fine-tuning the biLM on it (the paper's Table 7).

    python scripts/tuned_perplexity.py --model relmo-en-base --data DATA --tasks ner,snli,sst \
        --output runs/tuned-base

DATA has a folder for each task, as `relmo train` expects it. The biLM is trained on the words of
the training part for one epoch with the vocabulary of its softmax, and scored on the test part
before and after, each sentence from a zero state. OUTPUT/run.json is the record. With --keep
FOLDER, tuned models are kept as FOLDER/NAME, for `relmo train --elmo`. Needs only torch, numpy and
safetensors.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from relmo.elmo import Elmo
from relmo.errors import RelmoError
from relmo.tasks.data_files import Part
from relmo.tasks.lm.pretrain import pretrain
from relmo.tasks.lm.settings import load_recipe
from relmo.tasks.registry import data_facts, find_task, read_parts
from relmo.training.run import write_record

CHANGES = (
    "training.epochs=1", "training.log_every=50", "training.evaluate_every=0", "data.held_out=0",
    "data.whole=0.999999", "lm.keep_vocabulary=true", "lm.spans=[1]", "lm.rows=64", "lm.window=32",
    "optimizer.optimizer=adamw", "optimizer.learning_rate=3e-4",
)  # fmt: skip
"""To the small recipe; shapes are the model's. Words stay as treebanks split them."""
FOLDERS = {"litbank": "coref", "ontogum": "coref"}
"""Folders whose task has another name."""

Words = tuple[str, ...]
Parts = Mapping[Part, Sequence[Any]]
"""Examples of each part."""


def sentences_of(task: str, parts: Parts) -> tuple[list[Words], list[Words]]:
    """Distinct sentences of the training part, and those only in the test part."""
    kind = find_task(task)
    train, test = (
        dict.fromkeys(s for e in parts[part] for s in kind.sentences(e) if s)
        for part in ("train", "test")
    )
    return list(train), [s for s in test if s not in train]


def first_tokens(sentences: Iterable[Words], limit: int) -> list[list[list[str]]]:
    """The first sentences as documents, until they have that many tokens."""
    kept: list[list[list[str]]] = []
    total = 0
    for words in sentences:
        if total >= limit:
            break
        kept.append([list(words)])
        total += len(words)
    return kept


def tune(name: str, parts: Parts, elmo: Elmo, options: argparse.Namespace) -> dict[str, float]:
    """Perplexities of a task's text, NAME_before and NAME_after, and counts of its tokens."""
    train, test = sentences_of(FOLDERS.get(name, name), parts)
    documents = first_tokens(test, options.max_tokens)
    results = {f"{name}_before": elmo.lm.perplexity(documents, "zero").mean}
    with TemporaryDirectory() as folder:
        text = Path(folder, "train.txt")
        text.write_text("\n\n".join(" ".join(words) for words in train), encoding="utf-8")
        own = f"model.name={elmo.config.name}-{name}"
        recipe = load_recipe("small", [*CHANGES, own, *options.set])
        run = Path(folder, "run")
        pretrain(recipe, [text], run, init=elmo._files(), device=options.device)
        tuned = Elmo.from_pretrained(run / "model", device=options.device)
        found = tuned.lm.perplexity(documents, "zero")
        if options.keep is not None:
            shutil.copytree(run / "model", options.keep / name)
    results |= {f"{name}_after": found.mean, f"{name}_unknown_rate": found.unknown_rate}
    return results | {f"{name}_tokens": float(sum(len(d[0]) for d in documents))}


def main(args: list[str] | None = None) -> None:
    """Tune on each task's text and write the record."""
    parser = argparse.ArgumentParser(description="Perplexity before and after fine-tuning.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", required=True, metavar="NAME,…")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--max-tokens", type=int, default=20_000, help="of each test part")
    parser.add_argument("--set", action="append", default=[], metavar="section.key=value")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the tuned models here")
    parser.add_argument("--device")
    options = parser.parse_args(args)
    begun, results = time.monotonic(), {}
    facts = {}
    try:
        elmo = Elmo.from_pretrained(options.model, device=options.device)
        for name in options.tasks.split(","):
            task, folder = FOLDERS.get(name, name), options.data / name
            parts = read_parts(task, folder)
            facts[name] = data_facts(task, folder, parts)
            results |= tune(name, parts, elmo, options)
            print(name, f"{results[f'{name}_before']:.1f} -> {results[f'{name}_after']:.1f}")
            record = {
                "task": "tuned-perplexity",
                "elmo": {"name": elmo.config.name, "fingerprint": elmo.fingerprint()},
                "data": facts,
                "settings": [*CHANGES, *options.set],
                "seconds": round(time.monotonic() - begun, 1),
                "results": results,
            }
            options.output.mkdir(parents=True, exist_ok=True)
            write_record(options.output / "run.json", record)  # of all tasks so far
    except RelmoError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
