"""Table 4, how contextual each layer is, and Table 7: what is looked at without labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from relmo.lab.reports import paper
from relmo.lab.reports.blocks import (
    NOTHING,
    Block,
    Claim,
    Figure,
    Missing,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    join,
    mean_of,
    number,
    published,
    spans_of,
    versus,
)
from relmo.lab.reports.names import mark
from relmo.lab.reports.plots import Series, curves
from relmo.lab.reports.records import MODELS, Run, model_order

INTRINSIC = {
    "self_similarity": "self-similarity",
    "intra_sentence": "similarity within a sentence",
    "explained_variance": "explained by one direction",
    "anisotropy": "similarity of any two words",
}
"""What is measured of each layer, and its name."""
TEXTS = {
    "snli": "SNLI", "ner": "CoNLL-2003", "conll2003": "CoNLL-2003", "sst": "SST",
    "squad": "SQuAD", "squad_context": "SQuAD, paragraphs", "squad_questions": "SQuAD, questions",
    "srl": "PropBank on EWT", "litbank": "LitBank", "ontogum": "OntoGUM",
}  # fmt: skip


def table_4(runs: Sequence[Run]) -> Section:
    """Neighbours."""
    found = sorted(_of(runs, "neighbors"), key=_order)
    asked: dict[tuple[str, str], list[Run]] = {}
    for run in found:
        asked.setdefault((str(run.record["word"]), _line(run.record["sentence"])), []).append(run)
    about = (
        "Where else in a text a word stands as it stands in a sentence. By layer 2 is the paper's "
        "way; sense vectors are what both language models expect at the place beside the layers "
        "there (Elmo.sense_vectors). Without context: the nearest words by layer 0, which has one "
        "vector for all meanings."
    )
    tables = (_neighbours(word, line, asked[word, line]) for word, line in sorted(asked))
    blocks: list[Block] = [Paragraph(about), *tables, *_thanks(found)] if found else []
    return Section(
        "neighbours",
        "Table 4: neighbours of a word",
        "A static vector's neighbours are spread over a word's meanings; a context's neighbours "
        "have the same meaning and part of speech.",
        [*blocks, *_without(found, "neighbours (`relmo neighbors`)")],
    )


def _thanks(found: Sequence[Run]) -> Iterator[Paragraph]:
    names = {name for run in found for name in run.record.get("data", {}).get("files", {})}
    if any("wikipedia" in name for name in names):
        yield Paragraph("The sentences are by the authors of Wikipedia, under CC BY-SA 3.0.")


def _neighbours(word: str, sentence: str, runs: Sequence[Run]) -> Table:
    """Of a word in a sentence: by each model and way, and without context."""
    rows: list[list[Text | None]] = []
    for run in runs:
        layer = run.record.get("layer")
        way = "sense vectors" if layer is None else f"layer {layer}"
        label: str | None = f"{run.elmo}, by {way}"
        for near, cosine, position in run.results.get("context", []):
            rows.append([label, _scored(run, _marked(run, near, int(position)), cosine)])
            label = None
    for run in {run.elmo: run for run in runs}.values():
        near_words = run.results.get("static", [])
        words = [_scored(run, Span(str(near), run), cosine) for near, cosine in near_words]
        rows += [[f"{run.elmo}, without context", join(words)]] if words else []
    if word in paper.NEIGHBOURS:
        rows.append(["GloVe, in the paper", join(map(published, paper.NEIGHBOURS[word]))])
    head = "compared by", "nearest, with cosine"
    return Table(f"Table 4. Neighbours of “{word}” in “{sentence}”", head, rows, num_words=2)


def _scored(run: Run, text: Text, cosine: float) -> list[Span]:
    return [*spans_of(text), Span(" "), number(cosine, run, kind="weak")]


def _line(sentence: Any) -> str:  # noqa: ANN401 - words or a line
    return sentence if isinstance(sentence, str) else " ".join(sentence)


def _marked(run: Run, sentence: Any, position: int) -> list[Span]:  # noqa: ANN401 - as above
    """A sentence whose word at the position stands out, linked to the record."""
    words = _line(sentence).split()
    if not 0 <= position < len(words):
        return [Span(_line(sentence), run)]
    before, after = " ".join(words[:position]), " ".join(words[position + 1 :])
    return [
        Span(f"{before} " if before else ""),
        Span(words[position], run, kind="strong"),
        Span(f" {after}" if after else ""),
    ]


def intrinsic(runs: Sequence[Run]) -> Section:
    """How contextual each layer is."""
    found = sorted(_of(runs, "probe-intrinsic"), key=_order)
    blocks: list[Block] = []
    if found:
        blocks = [
            Paragraph(
                "Self-similarity: mean cosine of a word's vectors in different sentences; 1 is no "
                "context at all. Similarity of any two words: what crowded vectors give by chance. "
                "Explained by one direction: the share of a word's vectors that the best static "
                "vector could stand for."
            ),
            Figure(_intrinsic_pictures(found), "How contextual each layer is."),
            *(_intrinsic_table(run) for run in found),
            *(claim for run in found for claim in _intrinsic_claims(run)),
        ]
    return Section(
        "intrinsic",
        "How contextual each layer is",
        "Not in the paper; Ethayarajh (2019) found upper layers to be the more contextual ones.",
        [*blocks, *_without(found, "how contextual the layers are")],
    )


def _layers(run: Run, measure: str) -> list[tuple[int, float]]:
    pattern = re.compile(rf"{measure}_layer_(\d+)")
    matches = ((pattern.fullmatch(name), value) for name, value in run.results.items())
    return sorted((int(match[1]), float(value)) for match, value in matches if match)


def _intrinsic_pictures(found: Sequence[Run]) -> dict[str, str]:
    pictures = {}
    for measure, label in INTRINSIC.items():
        series = [
            Series(run.elmo, mark(run.elmo), [(n, v, v, v) for n, v in _layers(run, measure)])
            for run in found
            if _layers(run, measure)
        ]
        numbers = sorted({int(x) for one in series for x, *_ in one.points})
        if numbers:
            words = "; ".join(
                f"{one.label} " + ", ".join(f"{y:.2f}" for _, y, _, _ in one.points)
                for one in series
            )
            ticks = [(float(n), f"layer {n}") for n in numbers]
            name = f"intrinsic-{measure.replace('_', '-')}"
            pictures[name] = curves(
                name, label.capitalize(), f"By layer: {words}.", series, "", ticks, digits=1
            )
    return pictures


def _intrinsic_table(run: Run) -> Table:
    found = {measure: dict(_layers(run, measure)) for measure in INTRINSIC}
    numbers = sorted({n for values in found.values() for n in values})
    rows: list[list[Text | None]] = [
        [INTRINSIC[measure], *(mean_of(f"{measure}_layer_{n}", [run], ".3f") if n in values
                               else NOTHING for n in numbers)]
        for measure, values in found.items()
        if values
    ]  # fmt: skip
    head = ["measure", *(f"layer {n}" for n in numbers)]
    return Table(f"How contextual each layer is, {run.elmo}.", head, rows)


def _intrinsic_claims(run: Run) -> Iterator[Claim]:
    """Of self-similarity, what chance gives taken off."""
    own, chance = dict(_layers(run, "self_similarity")), dict(_layers(run, "anisotropy"))
    if {1, 2} <= own.keys() & chance.keys():
        above, below = own[2] - chance[2], own[1] - chance[1]
        yield Claim(
            f"{run.elmo}: layer 2 more contextual than layer 1 (self-similarity beyond chance)",
            above < below,
            versus(number(above, run, ".3f"), number(below, run, ".3f")),
            is_paper=False,
        )


def table_7(runs: Sequence[Run]) -> Section:
    """Perplexity before and after fine-tuning on a task's text."""
    found = sorted(_of(runs, "tuned-perplexity"), key=_order)
    rows: list[list[Text | None]] = []
    claims = []
    for run in found:
        texts = sorted(n.removesuffix("_before") for n in run.results if n.endswith("_before"))
        for text in (text for text in texts if f"{text}_after" in run.results):
            name = TEXTS.get(text, text.replace("_", " "))
            before, after = (mean_of(f"{text}_{when}", [run]) for when in ("before", "after"))
            theirs = map(published, paper.PERPLEXITY.get(text, ("–", "–")))
            rows.append([name, run.elmo, before, after, _unknown(run, text), *theirs])
            claims.append(Claim(
                f"{name}, {run.elmo}: lower perplexity after tuning",
                run.results[f"{text}_after"] < run.results[f"{text}_before"],
                versus(after, before),
            ))  # fmt: skip
    head = "text", "model", "before", "after", "unknown words", "the paper: before", "after"
    blocks: list[Block] = []
    if rows:
        about = (
            "Before and after one epoch on the words of the training part; of the test part's "
            "sentences, those left out that stand in the training part too. Perplexities compare "
            "between before and after, not with another vocabulary's."
        )
        caption = "Table 7. Perplexity of held-out text of the tasks."
        blocks = [Paragraph(about), Table(caption, head, rows, 2), *claims]
    return Section(
        "perplexity",
        "Table 7: perplexity before and after tuning",
        "An epoch on a task's text lowers the biLM's perplexity there, from 72.1 to 16.8 for SNLI.",
        [*blocks, *_without(found, "perplexity after tuning")],
    )


def _unknown(run: Run, text: str) -> Text:
    """Share of words outside the vocabulary, without which a perplexity says little."""
    name = f"{text}_unknown_rate"
    if name not in run.results:
        return NOTHING
    return [number(100 * float(run.results[name]), run, ".1f"), Span(" %")]


def _of(runs: Sequence[Run], task: str) -> list[Run]:
    return [run for run in runs if run.task == task]


def _order(run: Run) -> tuple[int, str, str]:
    return *model_order(run.elmo), run.path.as_posix()


def _without(found: Sequence[Run], what: str) -> list[Missing]:
    have = {run.elmo for run in found}
    return [Missing(f"No record of {what} for {model}.") for model in MODELS if model not in have]
