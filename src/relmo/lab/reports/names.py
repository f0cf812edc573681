"""What data sets, models and places are called in a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import fmean

from relmo.lab.reports.blocks import Span, extremes, number, versus
from relmo.lab.reports.records import MODELS, Dataset, Group, Part, Run

TASKS = {
    "squad": "Questions", "snli": "Entailment", "srl": "Semantic roles", "coref": "Coreference",
    "ner": "Named entities", "sst": "Sentiment", "sst-phrases": "Sentiment",
    "pos": "Parts of speech",
}  # fmt: skip
SNLI = "SNLI"
SST = "e2f3f41b0b1e6d4d"
"""How the checksum of its train.txt begins; many files are called so."""
FILES = {
    ("squad", "train-v1.1.json"): "SQuAD 1.1",
    ("snli", "train-small.jsonl"): SNLI,
    ("snli", "snli_1.0_train.jsonl"): SNLI,
    ("srl", "ewt-propbank.train.conll"): "PropBank on EWT",
    ("coref", "litbank.train.conll"): "LitBank",
    ("coref", "ontogum.train.conll"): "OntoGUM",
    ("ner", "eng.train"): "CoNLL-2003",
    ("pos", "en_ewt-ud-train.conllu"): "UD English-EWT",
}
"""Corpora by task and the name of their training file; others are called as their folder."""
REMARKS = {
    "train-v1.1.json": "whole training articles held out; test is the development part",
    "train-small.jsonl": "the first two cut from SNLI's development part; test is its own",
}
"""What a reader must know of their parts."""
NETWORKS = {
    "squad": "BiDAF with self-attention", "snli": "ESIM", "srl": "8 highway LSTMs",
    "coref": "span ranking", "ner": "biLSTM, CRF", "sst": "biattentive classification network",
    "sst-phrases": "biattentive classification network", "pos": "biLSTM, CRF",
}  # fmt: skip
UNITS = {
    "squad": "questions", "snli": "pairs", "srl": "predicates", "coref": "documents",
    "ner": "sentences", "sst": "sentences", "sst-phrases": "phrases", "pos": "sentences",
}  # fmt: skip
"""What a task learns from."""
PLACES = {"input": "input", "both": "input and output", "output": "output"}


def title(dataset: Dataset, groups: Iterable[Group]) -> str:
    """`Named entities, CoNLL-2003`."""
    return f"{TASKS[dataset.task]}, {corpus(dataset, groups)}"


def largest_run(dataset: Dataset, groups: Iterable[Group]) -> Run:
    """A run on all of a data set, where there is one: what it says of the data."""
    own = [run for group in groups if group.dataset == dataset for run in group.runs]
    return max(own, key=lambda run: int(run.record["data"]["train"]))


def corpus(dataset: Dataset, groups: Iterable[Group]) -> str:
    """What was learned from."""
    largest = largest_run(dataset, groups).record["data"]
    file = largest.get("files", {}).get("train", {})
    name = FILES.get((dataset.task, file.get("name", "")), dataset.name)
    if dataset.task == "snli" and name == SNLI:
        return f"{name}, {largest['train']:,} pairs"
    if dataset.task in ("sst", "sst-phrases"):
        known = "SST-5" if file.get("sha256", "").startswith(SST) else dataset.name
        return f"{known}, {'phrases' if dataset.task == 'sst-phrases' else 'sentences'}"
    return name


def mark(model: str) -> str:
    """The class of a model in pictures."""
    known = ["", *MODELS]
    return f"s{known.index(model)}" if model in known else "s3"


def model_name(model: str) -> str:
    """Of a row. A model tuned on a task's text is called after one of ours and the task."""
    for known in MODELS:
        if model.startswith(f"{known}-"):
            return f"+ {known}, tuned"
    return f"+ {model}" if model else "baseline"


def mean_score(group: Group, part: Part) -> list[Span]:
    """Mean over seeds, with lowest and highest where there are several."""
    spans = [number(group.mean(part), group.runs)]
    if group.runs[1:]:
        spans += [Span(" "), *extremes(group.scores(part), group.runs, ".1f", "weak")]
    return spans


def against(first: Group, second: Group, part: Part) -> list[Span]:
    """`91.64 against 90.03`, and whether other seeds could turn it round."""
    above, below = (number(group.mean(part), group.runs) for group in (first, second))
    pair = versus(above, below)
    if 1 in (len(first.runs), len(second.runs)):
        return [*pair, Span(" (one seed)", kind="weak")]
    lower, higher = sorted((first.scores(part), second.scores(part)), key=fmean)
    overlap = [Span(" (seeds overlap)", kind="weak")] if max(lower) >= min(higher) else []
    return [*pair, *overlap]


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def slug(text: str) -> str:
    """A text as a file's name and an anchor."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
