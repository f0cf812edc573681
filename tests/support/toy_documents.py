"""Tiny frames of semantic roles and tiny documents with coreference, after rules to be learned."""

import random
from collections.abc import Sequence
from pathlib import Path

NOUNS = ("dog", "cat", "bird", "fish", "boy", "girl", "élan", "🐘")
VERBS = ("saw", "fed", "met", "held")
PEOPLE = ("ada", "bob", "cy", "dan", "eve", "zoë")
Rng = random.Random


def write_frames(path: Path, number: int, rng: Rng, verbs: Sequence[str] = VERBS) -> None:
    """Sentences of two clauses, each with a predicate of its own; PropBank's columns.

    After every fourth of them follows one without a predicate.
    """
    lines = []
    for sentence in range(number):
        (left, left_roles), (right, right_roles) = _clause(rng, verbs), _clause(rng, verbs)
        first = [*left_roles, "*", *["*"] * len(right)]
        second = [*["*"] * len(left), "*", *right_roles]
        for i, word in enumerate([*left, "and", *right]):
            frame = f"{word}.01" if word in verbs else "-"
            cells = ["f", "0", str(i), word, "X", "*", "-", frame, first[i], second[i]]
            lines.append("\t".join(cells))
        lines.append("")
        if sentence % 4 == 3:
            words = ["the", NOUNS[sentence % len(NOUNS)], "and", "the", "fish"]
            lines += [f"f\t0\t{i}\t{word}\tX\t*\t-\t-" for i, word in enumerate(words)]
            lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _clause(rng: Rng, verbs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Who did it stands before the verb, to whom after it, now and then when."""
    words = [rng.choice(NOUNS), rng.choice(verbs), "the", rng.choice(NOUNS)]
    roles = ["(ARG0*)", "(V*)", "(ARG1*", "*)"]
    if rng.random() < 0.4:
        words, roles = [*words, "today"], [*roles, "(ARGM-TMP*)"]
    return words, roles


def write_documents(path: Path, number: int, rng: Rng, marks_singletons: bool = True) -> None:
    """Documents in which a name, alone or after `old`, means the same each time it is said.

    Args:
        path: a file of three columns.
        number: of documents.
        rng: chance.
        marks_singletons: whether names that are said once are mentions too.
    """
    lines = []
    for number_ in range(number):
        lines.append(f"# begin document GUM_{rng.choice(('news', 'court'))}_{number_}")
        sentences = [_meeting(rng) for _ in range(rng.randint(2, 4))]
        said = [word for sentence in sentences for word in sentence if word in PEOPLE]
        once = () if marks_singletons else {name for name in said if said.count(name) == 1}
        for sentence in sentences:
            lines += [*_rows(sentence, once), ""]
        lines.append("# end document")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _meeting(rng: Rng) -> list[str]:
    left, right = rng.sample(PEOPLE, 2)
    words = [*["old"] * (rng.random() < 0.3), left, rng.choice(VERBS), right]
    return [*words, *["at", "the", "old", "mill"] * (rng.random() < 0.5)]


def _rows(sentence: list[str], once: set[str] | tuple[()]) -> list[str]:
    rows = []
    for i, word in enumerate(sentence):
        after = sentence[i + 1] if i + 1 < len(sentence) else ""
        cell = "_"
        if word in PEOPLE and word not in once:
            is_old = i > 0 and sentence[i - 1] == "old"
            cell = f"{PEOPLE.index(word)})" if is_old else f"({PEOPLE.index(word)})"
        elif word == "old" and after in PEOPLE and after not in once:
            cell = f"({PEOPLE.index(after)}"
        rows.append(f"{i}\t{word}\t{cell}")
    return rows
