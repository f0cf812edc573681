"""Tiny data for each task in its own format, after a rule that can be learned, and tiny models.

A new task joins the suite in tests/contracts/test_tasks.py by its line in TOYS.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from relmo import Elmo
from relmo.tasks.run import TaskRecipe, load_task_recipe, train_task
from tests.support.toy_documents import write_documents, write_frames

NAMES = ["ada", "bob", "cy", "dan"]
PLACES = ["rome", "oslo", "lima", "bonn"]
THINGS = ["fox", "dog", "owl", "hen", "cat", "ant"]
DOING = ["sleeps", "runs"]
LOOKS = ["is red", "is big"]
FILLERS = ["the", "a", "it", "this", "film", "one", "naïve", "😀"]
GOOD = ["fine", "great", "warm"]
BAD = ["dull", "bad", "cold"]
Rng = random.Random


@dataclass(frozen=True)
class Toy:
    """How to write a file of examples, and what makes the task's recipe small."""

    suffix: str
    write: Callable[[Path, int, Rng], None]
    """(file, number of examples, chance) -> None."""
    shrink: Sequence[str]
    """Changes of the recipe, "section.key=value" each."""
    num_train: int = 40
    """Training examples, for a few steps."""
    places: Sequence[str] = ("nowhere", "input", "output", "both")
    """Where ELMo may join its model; "nowhere" is a model without ELMo."""

    def write_parts(self, folder: Path, train: int | None = None, others: int = 12) -> Path:
        """The three files of a folder of data; no two parts are drawn alike."""
        folder.mkdir(parents=True, exist_ok=True)
        numbers = {"train": train or self.num_train, "dev": others, "test": others}
        for seed, (part, number) in enumerate(numbers.items()):
            self.write(folder / f"{part}{self.suffix}", number, Rng(seed))
        return folder


def write_entities(path: Path, number: int, rng: Rng) -> None:
    """Columns: a name is a person and, before `inc`, an organisation; a place is a place."""
    sentences = []
    for _ in range(number):
        rows = [(rng.choice(FILLERS), "O") for _ in range(rng.randint(1, 4))]
        name, place = rng.choice(NAMES), rng.choice(PLACES)
        is_firm = rng.random() < 0.5
        rows += [(name, "B-ORG"), ("inc", "I-ORG")] if is_firm else [(name, "B-PER")]
        rows += [("in", "O"), (place, "B-LOC")]
        sentences.append("\n".join(" ".join(row) for row in rows))
    path.write_text("\n\n".join(sentences) + "\n", encoding="utf-8")


def write_parts_of_speech(path: Path, number: int, rng: Rng) -> None:
    """CoNLL-U: `saw` is a noun after an article, else a verb."""
    sentences = []
    for _ in range(number):
        rows = [(rng.choice(NAMES), "PROPN"), ("saw", "VERB"), ("the", "DET")]
        rows += [("saw", "NOUN") if rng.random() < 0.5 else (rng.choice(THINGS), "NOUN")]
        lines = [f"{i}\t{w}\t_\t{tag}" + "\t_" * 6 for i, (w, tag) in enumerate(rows, 1)]
        sentences.append("\n".join(lines))
    path.write_text("\n\n".join(sentences) + "\n\n", encoding="utf-8")


def opinion(rng: Rng) -> tuple[list[str], str]:
    """Words with one judgement, and its label: 4 or 0, turned round by `not`; 2 without any."""
    words = rng.choices(FILLERS, k=rng.randint(1, 6))
    label = rng.choice("024")
    if label != "2":
        is_turned = rng.random() < 0.5
        kind = GOOD if (label == "4") != is_turned else BAD
        place = rng.randint(0, len(words))
        words[place:place] = ["not"] * is_turned + [rng.choice(kind)]
    return words, label


def tree(words: Sequence[str], label: str) -> str:
    """A sentiment tree that branches to the right; what is inside it is neutral."""
    inner = f"(2 {words[-1]})"
    for word in reversed(words[1:-1]):
        inner = f"(2 (2 {word}) {inner})"
    return f"({label} (2 {words[0]}) {inner})" if len(words) > 1 else f"({label} {words[0]})"


def write_opinions(path: Path, number: int, rng: Rng) -> None:
    """Sentiment trees."""
    trees = [tree(*opinion(rng)) for _ in range(number)]
    path.write_text("\n".join(trees) + "\n", encoding="utf-8")


def write_reviews(path: Path, number: int, rng: Rng) -> None:
    """A table of opinions under names of its own; every eighth is longer than a window."""
    rows = [("id", "review", "mood")]
    for row in range(number):
        words, label = opinion(rng)
        words += ["this"] * 140 if row % 8 == 0 else []
        rows.append((str(row), f'"{" ".join(words)}, they said"', f"mood {label}"))
    path.write_text("\n".join(map(",".join, rows)) + "\n", encoding="utf-8")


def mention(rng: Rng) -> dict[str, str | list[str]]:
    """A text that names a person, a place, praises something, some of these or none."""
    words, labels = rng.choices(FILLERS, k=rng.randint(1, 4)), []
    for label, kind in {"person": NAMES, "place": PLACES, "praise": GOOD}.items():
        if rng.random() < 0.5:
            labels.append(label)
            words.insert(rng.randint(0, len(words)), rng.choice(kind))
    return {"text": " ".join(words), "labels": labels}


def write_mentions(path: Path, number: int, rng: Rng) -> None:
    """Texts with lists of labels; every eighth is longer than a window."""
    rows = [mention(rng) for _ in range(number)]
    for row in rows[::8]:
        row["text"] = f"{row['text']}{' this' * 140}"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")


def pair(rng: Rng) -> dict[str, str]:
    """The premise says what a thing does, the hypothesis the same, the opposite or how it looks."""
    doing = rng.choice(DOING)
    label = rng.choice(["entailment", "neutral", "contradiction"])
    other = DOING[1 - DOING.index(doing)]
    end = {"entailment": doing, "contradiction": other, "neutral": rng.choice(LOOKS)}[label]
    premise = " ".join([*rng.choices(FILLERS, k=rng.randint(0, 3)), rng.choice(THINGS), doing, "."])
    return {"gold_label": label, "sentence1": premise, "sentence2": f"it {end} ."}


def write_pairs(path: Path, number: int, rng: Rng) -> None:
    """SNLI's JSONL."""
    lines = [json.dumps(pair(rng)) for _ in range(number)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_passages(path: Path, number: int, rng: Rng) -> None:
    """Passages of made-up words, each with a query of some of them; some with a wrong answer."""
    words = [a + b for a in ("ba", "du", "ki", "lo", "me") for b in ("ra", "sin", "tof", "ven")]
    rows = []
    for row in range(number):
        passage = rng.sample(words, 5)
        query = [*rng.choices(FILLERS, k=rng.randint(0, 2)), *rng.sample(passage, 3)]
        found = {"query": " ".join(query), "positive": f"{' '.join(passage)} ."}
        if row % 4 == 0:
            found["negative"] = " ".join(rng.sample(words, 4))
        rows.append({**found, "kind": "even" if row % 2 else "odd"})
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")


def write_questions(path: Path, number: int, rng: Rng) -> None:
    """SQuAD's JSON: a text says who lives where, its question asks for the one or the other."""
    articles = []
    for i in range(number):
        name, place = rng.choice(NAMES), rng.choice(PLACES)
        answer, asked = rng.choice([(name, "who"), (place, "where")])
        text = " ".join([*rng.choices(FILLERS, k=rng.randint(0, 3)), name, "lives in", place, "."])
        found = {"text": answer, "answer_start": text.index(answer)}
        qas = [{"id": f"{path.stem} {i}", "question": f"{asked} ?", "answers": [found]}]
        articles.append({"title": f"{i}", "paragraphs": [{"context": text, "qas": qas}]})
    path.write_text(json.dumps({"data": articles}), encoding="utf-8")


def write_vectors(path: Path, data: Path, width: int = 100) -> Path:
    """A file of random vectors, as large as those of GloVe, of all words of some data."""
    words = {word for file in data.iterdir() for word in re.findall(r"\w+", file.read_text())}
    rng = Rng(0)
    rows = [[word, *(f"{rng.gauss(0, 1):.3f}" for _ in range(width))] for word in sorted(words)]
    path.write_text("".join(f"{' '.join(row)}\n" for row in rows), encoding="utf-8")
    return path


SMALL = ["batch.size=8", "optimizer.learning_rate=0.01"]
TAGGER = [*SMALL, "input.letters=6", "model.cell_width=12", "model.num_layers=1"]
CLASSIFIER = [*SMALL, "model.hidden_width=16", "model.cell_width=12", "model.integrator_width=12"]
PAIRS = [*SMALL, "model.hidden_width=16", "model.cell_width=12", "model.composition_width=16"]
ANSWERS = [*SMALL, "input.letters=6", "model.cell_width=8", "model.hidden_width=12"]
ROLES = [
    *SMALL, "model.cell_width=12", "model.num_layers=2", "model.mark_width=4",
    "model.finder_width=8",
]  # fmt: skip
ENCODER = [
    "batch.size=8", "input.output_embeddings=false", "input.random_width=16", "model.width=16",
]  # fmt: skip
CLUSTERS = [
    "input.letters=0", "model.cell_width=8", "model.hidden_width=12", "model.feature_width=4",
    "model.max_width=3", "optimizer.learning_rate=0.01",
]  # fmt: skip

TOYS: dict[str, Toy] = {
    "classify": Toy(".csv", write_reviews, CLASSIFIER),
    "coref": Toy(".conll", write_documents, CLUSTERS, num_train=8),
    "encoder": Toy(".jsonl", write_passages, ENCODER, places=("input",)),
    "multilabel": Toy(".jsonl", write_mentions, CLASSIFIER),
    "ner": Toy(".txt", write_entities, TAGGER),
    "pos": Toy(".conllu", write_parts_of_speech, TAGGER),
    "snli": Toy(".jsonl", write_pairs, PAIRS),
    "squad": Toy(".json", write_questions, ANSWERS),
    "srl": Toy(".conll", write_frames, ROLES, num_train=24),
    "sst": Toy(".txt", write_opinions, CLASSIFIER),
    "sst-phrases": Toy(".txt", write_opinions, CLASSIFIER, num_train=8),
}
"""Task -> its data."""


def toy_recipe(name: str, *changes: str, place: str = "input") -> TaskRecipe:
    """The package's recipe of a task, made small; three epochs unless changed."""
    small = [
        *TOYS[name].shrink,
        f"input.place={place}",
        "training.epochs=3",
        "training.log_every=1",
    ]
    return load_task_recipe(name, None, [*small, *changes])


def train_toy(
    name: str, data: Path, output: Path, elmo: Elmo | None = None, *changes: str, **options
) -> dict[str, float]:
    """Train a task's small model on the CPU; `place` and what train_task takes are options."""
    recipe = toy_recipe(name, *changes, place=options.pop("place", "input"))
    return train_task(name, recipe, data, output, elmo=elmo, device="cpu", **options)
