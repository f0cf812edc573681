"""The long commands that faults are tried on: their data, how to go on, and their result."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from pyarrow import parquet

from tests.faults.process import run
from tests.support.toy_lm import Grammar, metrics
from tests.support.toy_tasks import TOYS

WORDS = tuple(
    "bank river loan rate fish boat money water credit bridge stream teller mill ferry".split()  # noqa: SIM905
)
QUERIES = ("river bank", "loan rate", "ferry mill", "water", "credit teller")
SMALL_LM = (
    "model.char_cnn.width=8", "model.char_cnn.filters=[[1, 4], [2, 8]]", "model.lstm.cell_width=12",
    "model.lstm.output_width=8", "lm.rows=4", "lm.window=4", "data.held_out=0.1",
    "training.log_every=2",
)  # fmt: skip


Result = str | NDArray[np.float32]


def is_same(one: Result, other: Result) -> bool:
    """Whether two results are the same: digests to the bit, vectors within 1e-5."""
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str) and one == other
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=0, atol=1e-5))


def vectors(path: Path) -> NDArray[np.float32]:
    """All numbers of a vector file, in the order of its lines."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            parts = [arrays[str(i)] for i in range(len(arrays))]
    elif path.suffix == ".h5":
        with h5py.File(path) as file:
            parts = [file[str(i)][()] for i in range(len(file) - 1)]
    elif path.suffix == ".jsonl":
        lines = map(json.loads, path.read_text().splitlines())
        parts = [np.asarray(line["layers"], np.float32) for line in lines]
    else:
        column = parquet.read_table(path)["vector"].combine_chunks()
        parts = [column.flatten().to_numpy()]
    return np.concatenate([part.ravel() for part in parts]).astype(np.float32)


@dataclass(frozen=True)
class Job:
    """A command that takes some seconds and writes `output`."""

    name: str
    args: Callable[[Path], list[str]]
    """Output -> the command's arguments."""
    result: Callable[[Path], Result]
    """Output -> what the work was for, the same for every way to get there: a digest, or vectors,
    which depend on the batch in their last bits."""
    output: str = "out"
    resume: tuple[str, ...] = ("--resume",)
    """What the command needs to go on; nothing where it goes on by itself."""


def digest(*parts: object) -> str:
    """A short digest of bytes and JSON."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode())
    return found.hexdigest()[:16]


def tensors(path: Path) -> dict[str, str]:
    """Name -> digest of each tensor of a safetensors file, whatever the order and metadata."""
    from safetensors.numpy import load_file

    return {name: digest(array.tobytes()) for name, array in load_file(path).items()}


class Workshop:
    """Tiny data and models in a folder, and the jobs on them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.logs = folder, folder / "logs"
        self.text, self.notes, self.data = folder / "text.txt", folder / "notes", folder / "ner"
        self.corpus, self.model, self.small_text = (
            folder / name for name in ("corpus.txt", "model", "small.txt")
        )
        rng = random.Random(0)
        lines = [" ".join(rng.choices(WORDS, k=rng.randint(3, 12))) for _ in range(4000)]
        self.text.write_text("\n".join(lines) + "\n")
        self.small_text.write_text("\n".join(lines[:20]) + "\n")
        self.notes.mkdir()
        for number in range(60):
            paragraphs = [" ".join(rng.choices(WORDS, k=rng.randint(5, 30))) for _ in range(4)]
            (self.notes / f"note{number}.txt").write_text("\n\n".join(paragraphs) + "\n")
        self.corpus.write_text(Grammar(0).text(300, seed=1) + "\n")
        TOYS["ner"].write_parts(self.data, train=120)
        self.need("pretrain", *self.pretraining(folder / "lm", steps=6))
        (folder / "lm/model").rename(self.model)

    def need(self, *args: object) -> str:
        """Run a command that must succeed; what it printed."""
        ended = run(args, self.logs)
        if ended.status:
            raise RuntimeError(f"relmo {' '.join(map(str, args))}: {ended.last_words}")
        return ended.out

    def fresh(self, name: str) -> Path:
        """An empty folder."""
        folder = self.folder / "work" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    # ── commands ────────────────────────────────────────────────────────────────────────────────

    def embedding(self, output: Path, text: Path | None = None) -> list[str]:
        """relmo embed."""
        return ["embed", str(text or self.text), "-o", str(output), "--model", str(self.model)]

    def pretraining(self, output: Path, steps: int, **changes: Any) -> list[str]:
        """Arguments of relmo pretrain."""
        values = [*SMALL_LM, f"training.steps={steps}", "training.checkpoint_every=25"]
        values += [f"{key}={value}" for key, value in changes.items()]
        where = ["--data", str(self.corpus), "--output", str(output)]
        where += ["--cache", str(output.parent / "cache")]
        return ["--recipe", "tiny", *where, *(f"--set={value}" for value in values)]

    def training(self, output: Path) -> list[str]:
        """relmo train."""
        changes = [*TOYS["ner"].shrink, "training.epochs=12", "training.checkpoint_every=10"]
        where = ["--data", str(self.data), "--output", str(output), "--elmo", str(self.model)]
        return ["train", "ner", *where, *(f"--set={change}" for change in changes)]

    def indexing(self, output: Path) -> list[str]:
        """relmo index."""
        return ["index", str(self.notes), "--out", str(output), "--model", str(self.model)]

    # ── results ─────────────────────────────────────────────────────────────────────────────────

    def hits(self, index: Path) -> str:
        """What an index finds."""
        return digest([self.need("search", str(index), query, "--json") for query in QUERIES])

    @staticmethod
    def pretrained(run_folder: Path) -> str:
        """Weights and losses."""
        model = run_folder / "model"
        weights = [tensors(path) for path in sorted(model.glob("*.safetensors"))]
        return digest(weights, (model / "vocab.txt").read_bytes(), metrics(run_folder))

    @staticmethod
    def trained(run_folder: Path) -> str:
        """Weights, losses and scores."""
        results = json.loads((run_folder / "run.json").read_text())["results"]
        kept = {name: value for name, value in results.items() if "second" not in name}
        return digest(tensors(run_folder / "best.safetensors"), metrics(run_folder), kept)

    def jobs(self) -> list[Job]:
        """Every long command."""
        embedding = [
            Job(f"embed {name}", self.embedding, vectors, name)
            for name in ("out.h5", "out.npz", "out.parquet", "out.jsonl")
        ]
        return [
            *embedding,
            Job("pretrain", lambda o: ["pretrain", *self.pretraining(o, 150)], self.pretrained),
            Job("train", self.training, self.trained),
            Job("index", self.indexing, self.hits, "notes.relmo", resume=()),
        ]
