"""The sense test: is a word's vector closer to its own sense than to the other one?

    python scripts/sense_test.py --model relmo-untrained --json senses.json

`experiments/senses.toml` holds ambiguous words, two senses each, and sentences for both. A triple
is an anchor a, a partner b of the same sense, and c of the other sense. It is right if
cos(a, b) > cos(a, c) between the vectors of the word itself; a tie counts one half. Static vectors
score 50 % by construction.

The headline figure, fixed before any trained model was scored, is that of the top layer over all
words. The other readings are printed beside it; `sense_vectors` came later and was chosen
by other text. Output is Markdown.

Shapes: N sentences of one word, L LSTM layers, R readings of the layers, D width.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relmo import Elmo
from relmo.errors import RelmoError
from relmo.types import Vectors

SENSES = Path(__file__).parents[1] / "experiments" / "senses.toml"
TIE = 1e-6
"""Cosines no further apart than this are equal: below it is the rounding of float32."""


@dataclass(frozen=True)
class Sense:
    """One meaning of a word, and tokenised sentences that use it."""

    gloss: str
    part_of_speech: str
    sentences: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class AmbiguousWord:
    """A word form with its two senses."""

    word: str
    senses: tuple[Sense, Sense]

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        """All sentences, the first sense first."""
        return [sentence for sense in self.senses for sentence in sense.sentences]

    @property
    def labels(self) -> np.ndarray:
        """The sense, 0 or 1, of each sentence: (N,)."""
        return np.repeat([0, 1], [len(sense.sentences) for sense in self.senses])

    @property
    def keeps_part_of_speech(self) -> bool:
        """Whether both senses are the same part of speech."""
        return self.senses[0].part_of_speech == self.senses[1].part_of_speech


@dataclass(frozen=True)
class WordScore:
    """How one word did: percent of its triples right, one figure per reading."""

    word: AmbiguousWord
    percent: np.ndarray  # (R,)
    num_triples: int


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def read_words(path: Path = SENSES) -> list[AmbiguousWord]:
    """The words of the test, in the order of the file."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return [_word(entry["word"], entry["senses"]) for entry in found["words"]]


def _word(word: str, senses: Sequence[dict[str, Any]]) -> AmbiguousWord:
    first, second = (
        Sense(
            gloss=sense["gloss"],
            part_of_speech=sense["part_of_speech"],
            sentences=tuple(tuple(sentence.split()) for sentence in sense["sentences"]),
        )
        for sense in senses
    )
    return AmbiguousWord(word, (first, second))


# ── scoring ─────────────────────────────────────────────────────────────────────────────────────


def cosines(vectors: np.ndarray) -> np.ndarray:
    """Cosine of each pair of rows: (N, D) -> (N, N). A zero row has cosine 0 with all."""
    rows = vectors.astype(np.float64)  # (N, D)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)  # (N, 1)
    rows = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return np.asarray(rows @ rows.T)  # (N, N)


def score_triples(similarity: np.ndarray, labels: np.ndarray) -> tuple[float, int]:
    """Points and number of the triples of one word.

    Args:
        similarity: (N, N), of each pair of sentences.
        labels: (N,), the sense of each sentence.
    """
    same = labels[:, None] == labels  # (N, N)
    partner = same & ~np.eye(len(labels), dtype=bool)  # (N, N)
    triples = partner[:, :, None] & ~same[:, None, :]  # (N, N, N): a, b, c
    lead = similarity[:, :, None] - similarity[:, None, :]  # (N, N, N): cos(a, b) - cos(a, c)
    points = np.where(np.abs(lead) <= TIE, 0.5, lead > 0)  # (N, N, N)
    return float(points[triples].sum()), int(triples.sum())


def reading_names(num_layers: int) -> list[str]:
    """What `read_layers` hands out, of a model that has this many layers, layer 0 included."""
    top = num_layers - 1
    layers = [f"layer {k}" for k in range(num_layers)]
    return [*layers, f"mean 1–{top}", f"mean 0–{top}", "sense_vectors"]


def read_layers(layers: np.ndarray) -> np.ndarray:
    """Each layer, the mean of those above layer 0, the mean of all: (L + 1, N, D) -> (R, N, D)."""
    return np.stack([*layers, layers[1:].mean(0), layers.mean(0)])


def score_word(word: AmbiguousWord, layers: np.ndarray, senses: np.ndarray) -> WordScore:
    """The score of a word from its vectors (L + 1, N, D) and sense vectors (N, F)."""
    readings = [*read_layers(layers), senses]
    found = [score_triples(cosines(vectors), word.labels) for vectors in readings]
    percent = np.array([100 * points / count for points, count in found])  # (R,)
    return WordScore(word, percent, found[0][1])


def overall(scores: Sequence[WordScore]) -> np.ndarray:
    """Percent right of all triples of all words: (R,)."""
    return np.average(
        [score.percent for score in scores],
        axis=0,
        weights=[score.num_triples for score in scores],
    )


# ── the model ───────────────────────────────────────────────────────────────────────────────────


def word_vectors(words: Sequence[AmbiguousWord], sentences: Sequence[Vectors]) -> list[np.ndarray]:
    """The vectors of each word itself, one array (…, N, D) per word.

    Args:
        words: the words of the test.
        sentences: (…, T, D) of each sentence of each word, in order.
    """
    stream = iter(sentences)
    return [
        np.stack([next(stream)[..., tokens.index(word.word), :] for tokens in word.sentences], -2)
        for word in words
    ]


def run(elmo: Elmo, words: Sequence[AmbiguousWord]) -> list[WordScore]:
    """Embed every sentence alone and score every word."""
    sentences = [list(sentence) for word in words for sentence in word.sentences]
    layers = word_vectors(words, elmo.embed(sentences))  # each (L + 1, N, D)
    senses = word_vectors(words, elmo.sense_vectors(sentences))  # each (N, F)
    return [score_word(*each) for each in zip(words, layers, senses, strict=True)]


# ── the report ──────────────────────────────────────────────────────────────────────────────────


def markdown_row(cells: Sequence[str]) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def summary_table(scores: Sequence[WordScore], names: Sequence[str], top: int) -> list[str]:
    """A line per reading: all words, those of one part of speech, the others."""
    kept = [score for score in scores if score.word.keeps_part_of_speech]
    rest = [score for score in scores if not score.word.keeps_part_of_speech]
    groups = {"all words": scores, "same part of speech": kept, "two parts of speech": rest}
    groups = {title: group for title, group in groups.items() if group}
    heads = [f"{title} ({len(group)})" for title, group in groups.items()]
    lines = [markdown_row(["% right", *heads]), "|---" + "|---:" * len(heads) + "|"]
    columns = np.stack([overall(group) for group in groups.values()], 1)  # (R, groups)
    for number, (name, row) in enumerate(zip(names, columns, strict=True)):
        cells = [f"{value:.1f}" for value in row]
        if number == top:
            name, cells[0] = f"**{name}, top: the headline**", f"**{cells[0]}**"
        lines.append(markdown_row([name, *cells]))
    return lines


def word_table(scores: Sequence[WordScore], names: Sequence[str], top: int) -> list[str]:
    """A line per word, the best in the top layer first."""
    lines = [markdown_row(["word", "senses", *names]), "|---|---" + "|---:" * len(names) + "|"]
    for score in sorted(scores, key=lambda score: (-score.percent[top], score.word.word)):
        senses = " / ".join(f"{s.gloss} ({s.part_of_speech})" for s in score.word.senses)
        figures = [f"{value:.1f}" for value in score.percent]
        lines.append(markdown_row([score.word.word, senses, *figures]))
    return lines


def record(scores: Sequence[WordScore], names: Sequence[str], top: int) -> dict[str, object]:
    """The figures as JSON holds them."""

    def figures(percent: np.ndarray) -> dict[str, float]:
        return dict(zip(names, percent.tolist(), strict=True))

    percent = overall(scores)  # (R,)
    return {
        "headline": float(percent[top]),
        "num_triples": sum(score.num_triples for score in scores),
        "percent": figures(percent),
        "words": {score.word.word: figures(score.percent) for score in scores},
    }


def main() -> None:
    """Score one model and print the tables."""
    parser = argparse.ArgumentParser(description="The sense test, scored on one model.")
    parser.add_argument("--model", required=True, help="an installed model's name, or a folder")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    try:
        elmo = Elmo.from_pretrained(options.model)
    except RelmoError as error:
        raise SystemExit(str(error)) from error

    scores = run(elmo, read_words())
    top = elmo.config.num_layers - 1
    names = reading_names(elmo.config.num_layers)
    about = {
        "model": options.model,
        "fingerprint": elmo.fingerprint(),
        "senses_sha256": hashlib.sha256(SENSES.read_bytes()).hexdigest(),
    }
    found = record(scores, names, top)
    print(f"Sense test of `{options.model}`: {found['headline']:.1f} % in the top layer.")
    print(f"{found['num_triples']:,} triples of {len(scores)} words; static vectors score 50 %.")
    print(f"Model {about['fingerprint'][:12]}, senses.toml {about['senses_sha256'][:12]}.")
    print("", *summary_table(scores, names, top), sep="\n")
    print("", *word_table(scores, names, top), sep="\n")
    if options.json is not None:
        text = json.dumps(about | found, indent=2, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
