"""Write a trained model as it is released, in 8 bits per weight, and measure the difference.

    PYTHONPATH=src python3 scripts/measure_model.py --model runs/base/model --text held-out/*.txt \
        --output measured

OUTPUT/model is the model to release. OUTPUT/measures.json has, for each text, the perplexity of the
trained model (float32) and of the released one (read back from its files) from every start, and the
cosine of their vectors. A model that is already stored in 8 bits is measured as it is. Needs only
torch, numpy and safetensors. Arithmetic is float32 throughout, on a GPU if there is one.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from relmo.elmo import Elmo
from relmo.errors import ConfigError, RelmoError, TextError
from relmo.files import make_folder, write_json
from relmo.lm.scorer import ScoreStart
from relmo.text.documents import read_documents
from relmo.types import Vectors
from relmo.weights.native import Native, read_config

COMPARED_TOKENS = 2000
"""Tokens of each text whose vectors are compared."""

Document = list[list[str]]
"""Sentences of words."""


@dataclass(frozen=True)
class Measured:
    """One model on one text."""

    perplexity: dict[ScoreStart, dict[str, float]]
    vectors: Vectors
    """(L + 1, T, D) of the text's first tokens."""
    seconds: dict[ScoreStart, float]


def read_text(elmo: Elmo, path: Path, max_tokens: int | None) -> list[Document]:
    """The first documents of a file as words, until they have max_tokens."""
    documents: list[Document] = []
    num_tokens = 0
    for lines in read_documents(path):
        if max_tokens is not None and num_tokens >= max_tokens:
            break
        documents.append([words for words in elmo.sentences(lines) if words])
        num_tokens += sum(map(len, documents[-1]))
    if not num_tokens:
        raise TextError(f"{path}: contains no words to score")
    return documents


def measure(elmo: Elmo, documents: Sequence[Document]) -> Measured:
    """Perplexity from every start that the model has, and vectors of the first sentences."""
    starts: list[ScoreStart] = ["zero", "stored", "carried"]
    if not elmo.config.has_start_state:
        starts.remove("stored")
    perplexity: dict[ScoreStart, dict[str, float]] = {}
    seconds: dict[ScoreStart, float] = {}
    for start in starts:
        begun = perf_counter()
        perplexity[start] = asdict(elmo.lm.perplexity(documents, start))
        seconds[start] = round(perf_counter() - begun, 2)
    vectors = elmo.embed(list(first_sentences(documents, COMPARED_TOKENS)))
    return Measured(perplexity, np.concatenate(vectors, 1), seconds)


def first_sentences(documents: Sequence[Document], num_tokens: int) -> Iterator[list[str]]:
    """The first sentences, until they have that many tokens."""
    for sentence in (sentence for document in documents for sentence in document):
        if num_tokens <= 0:
            return
        yield sentence
        num_tokens -= len(sentence)


def cosines(one: Vectors, other: Vectors) -> list[dict[str, float]]:
    """Mean and minimum over the tokens of each layer, of two (L + 1, T, D)."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)  # (L + 1, T)
    found: NDArray[np.float64] = (a * b).sum(-1) / np.maximum(lengths, 1e-12)  # (L + 1, T)
    return [{"mean": float(layer.mean()), "minimum": float(layer.min())} for layer in found]


def table(texts: dict[str, dict[str, Any]]) -> str:
    """Perplexities and cosines as Markdown."""
    lines = ["| text | start | storage | forward | backward | mean | tokens | unknown |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, found in texts.items():
        for start in found["perplexity"]["int8"]:
            for storage, by_start in found["perplexity"].items():
                p = by_start[start]
                scores = f"{p['forward']:.2f} | {p['backward']:.2f} | {p['mean']:.2f}"
                counts = f"{p['tokens']:,} | {p['unknown_rate']:.2%}"
                lines.append(f"| {name} | {start} | {storage} | {scores} | {counts} |")
    lines += ["", "| text | layer | mean cosine | minimum |", "| --- | ---: | ---: | ---: |"]
    for name, found in texts.items():
        for number, layer in enumerate(found.get("cosine", ())):
            lines.append(f"| {name} | {number} | {layer['mean']:.5f} | {layer['minimum']:.5f} |")
    return "\n".join(lines)


def measure_model(
    model: Path,
    paths: Sequence[Path],
    output: Path,
    device: str,
    max_tokens: int | None = None,
    shard_bytes: int | None = None,
) -> dict[str, Any]:
    """Write output/model and output/measures.json; return the measures."""
    if len({path.stem for path in paths}) < len(paths):
        raise ConfigError(
            "two texts have the same name, which identifies their measures; rename one"
        )
    make_folder(output)
    is_stored = read_config(model).storage == "int8"
    if not is_stored:
        Native().write(output / "model", Native().read(model), shard_bytes, storage="int8")
    elmo = Elmo.from_pretrained(model, device=device)
    texts = {path.stem: read_text(elmo, path, max_tokens) for path in paths}
    found = {name: measure(elmo, documents) for name, documents in texts.items()}
    trained, shipped = {} if is_stored else found, found
    if not is_stored:
        del elmo  # frees memory of the device
        elmo = Elmo.from_pretrained(output / "model", device=device)
        shipped = {name: measure(elmo, documents) for name, documents in texts.items()}
    measures = {
        "model": elmo.config.name,
        "device": torch.cuda.get_device_name() if elmo.device.type == "cuda" else "cpu",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "texts": {name: compare(trained.get(name), shipped[name]) for name in texts},
    }
    write_json(output / "measures.json", measures)
    return measures


def compare(trained: Measured | None, shipped: Measured) -> dict[str, Any]:
    """The record of one text."""
    if trained is None:
        return {"perplexity": {"int8": shipped.perplexity}, "seconds": {"int8": shipped.seconds}}
    return {
        "perplexity": {"float32": trained.perplexity, "int8": shipped.perplexity},
        "cosine": cosines(trained.vectors, shipped.vectors),
        "seconds": {"float32": trained.seconds, "int8": shipped.seconds},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print the tables."""
    best = "cuda" if torch.cuda.is_available() else "cpu"
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True, help="folder of the trained model")
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="files of documents")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--device", default=best)
    parser.add_argument("--max-tokens", type=int, help="of each text [default: all]")
    parser.add_argument("--shard-mb", type=float, default=45, help="megabytes per file of weights")
    args = parser.parse_args(arguments)
    try:
        shard_bytes = int(args.shard_mb * 1e6)
        found = measure_model(
            args.model, args.text, args.output, args.device, args.max_tokens, shard_bytes
        )
    except RelmoError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    print(table(found["texts"]))


if __name__ == "__main__":
    main()
