"""A random grammar whose perplexity is known, its text, and a recipe that learns it in seconds."""

import json
import math
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

from relmo.tasks.lm.pretrain import pretrain
from relmo.tasks.lm.settings import PretrainRecipe, make_recipe
from relmo.tasks.lm.token_cache import CacheSettings, TokenCache, is_held_out, open_cache
from relmo.text.documents import read_documents

WORDS = [
    "ba",
    "be",
    "bi",
    "bo",
    "bu",
    "da",
    "de",
    "di",
    "do",
    "du",
    "ka",
    "ke",
    "ki",
    "ko",
    "ku",
    "la",
    "le",
    "li",
    "lo",
    "lu",
]
CHANCES = (0.6, 0.3, 0.1)
"""Of the three words that may follow a word, where the sentence goes on."""
END = 0.2
"""Chance that a sentence ends after a word."""
CLOCK = ("seconds", "steps_per_second", "seconds_left")
"""What differs from run to run in metrics.jsonl."""


class Grammar:
    """Each word is followed by one of three others; sentences know nothing of each other."""

    def __init__(self, seed: int, words: list[str] = WORDS) -> None:
        rng = random.Random(seed)
        self.after = {word: rng.sample(words, 3) for word in ["", *words]}

    def sentence(self, rng: random.Random) -> list[str]:
        words: list[str] = []
        while not words or rng.random() >= END:
            words += rng.choices(self.after[words[-1] if words else ""], CHANCES)
        return words

    def log_chance(self, words: list[str]) -> float:
        steps = [CHANCES[self.after[a].index(b)] for a, b in pairwise(["", *words])]
        ends = [1 - END] * (len(words) - 1) + [END]
        return sum(map(math.log, steps + ends))

    def text(self, documents: int, seed: int) -> str:
        """Documents of six sentences, one a line, a blank line between documents."""
        rng = random.Random(seed)
        return "\n\n".join(
            "\n".join(" ".join(self.sentence(rng)) for _ in range(6)) for _ in range(documents)
        )

    def perplexity(self, documents: list[list[list[str]]]) -> float:
        """The lowest that any model can reach on average, in either direction."""
        sentences = [sentence for document in documents for sentence in document]
        total = sum(map(self.log_chance, sentences))
        return math.exp(-total / sum(len(words) + 1 for words in sentences))


class Corpus:
    """Text of a grammar in a folder, with its token cache: made here, no worker processes."""

    def __init__(self, folder: Path, grammar: Grammar, documents: int = 500, **data: Any) -> None:
        self.file, self.cache_folder = folder / "text.txt", folder / "cache"
        self.settings = CacheSettings(**{"held_out": 0.1, **data})
        folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(grammar.text(documents, seed=1) + "\n")
        self.cache: TokenCache = open_cache([self.file], self.cache_folder, self.settings)

    def held_out(self) -> list[list[list[str]]]:
        """Documents that no run is trained on, as words."""
        documents = read_documents(self.file)
        kept = [document for document in documents if is_held_out(document, self.settings)]
        return [[line.split() for line in document] for document in kept]

    def train(self, recipe: PretrainRecipe, output: Path, **options: Any) -> dict[str, float]:
        """Pretrain on it, on the CPU."""
        options = {"cache_folder": self.cache_folder, "device": "cpu", **options}
        return pretrain(recipe, [self.file], output, **options)


def toy_recipe(**changes: Any) -> PretrainRecipe:
    """Six steps of a tiny model; changes are by section: lm={"rows": 8}."""
    cnn = {"width": 8, "character_width": 4, "filters": [[1, 8], [2, 8]], "num_highways": 1}
    values: dict[str, dict[str, Any]] = {
        "model": {
            "name": "toy",
            "char_cnn": cnn,
            "lstm": {"cell_width": 12, "output_width": 8},
        },
        "lm": {"vocabulary": 100, "rows": 4, "window": 4, "negatives": 8, "spans": (8, 2)},
        "data": {"held_out": 0.1},
        "training": {"steps": 6, "log_every": 1},
        "optimizer": {"learning_rate": 0.03, "warmup": 0.1},
    }
    for section, values_of_section in changes.items():
        if section == "training" and "minutes" in values_of_section:
            del values["training"]["steps"]
        values[section] |= values_of_section
    return make_recipe(values, "toy")


def metrics(run: Path) -> list[dict[str, Any]]:
    """Lines of metrics.jsonl without what a clock says."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if k not in CLOCK} for line in lines]
