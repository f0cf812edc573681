"""The model card, README.md of a model folder, generated from what is known about the model.

Every card has the model's settings and training record. The card of a released model has more:
where its text comes from, how well it predicts, what its storage costs (`Release`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relmo.config import CharCnnConfig, ElmoConfig, Start
from relmo.weights.tensors import Storage, expected_shapes

LIMITS = (
    "Its vectors reflect the text it was trained on, including that text's biases and errors.",
    "It computes vectors of words in context. It is not made to generate text.",
)
STORED_START = (
    "A sentence starts from a state that is stored with the weights; "
    '`start="zero"` starts from zero, as the official ELMos do.'
)
ZERO_START = (
    "A sentence starts from zero, as in the official ELMos: on held-out text this was better than "
    'the mean state after a sentence, which is stored with the weights (`start="stored"`).'
)

PERPLEXITY_COLUMNS = "text", "start", "forward", "backward", "mean", "tokens", "unknown"
COST_COLUMNS = "mean in float32", "cost"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A text that a model was trained on."""

    name: str
    url: str
    terms: str


@dataclass(frozen=True, kw_only=True)
class Release:
    """What is known about a released model beyond its own files."""

    language: str
    install: str
    """How to get the model, as a sentence."""
    sources: Sequence[Source]
    texts: Mapping[str, Any]
    """Per text: `perplexity` {storage: {start: scores}} and `cosine` [{mean, minimum}], as
    scripts/measure_model.py writes them."""
    held_out: Mapping[str, Any] | None = None
    """`max_copied`, `corpora` {text: counts}, as scripts/held_out.py writes them."""
    senses: Mapping[str, Any]
    """`num_triples`, `percent` {reading: value}, as scripts/sense_test.py writes them."""
    curve: str
    """File name of the figure next to the card."""
    limits: Sequence[str]


def model_card(
    config: ElmoConfig,
    num_words: int | None,
    storage: Storage = "float32",
    num_bytes: int | None = None,
    release: Release | None = None,
) -> str:
    """The text of the card.

    Args:
        config: The model's settings and training record.
        num_words: Size of the softmax, None for a model without one.
        storage: How the weights are stored.
        num_bytes: Total size of the model's files.
        release: More information about a released model.
    """
    parts = [
        _front_matter(config, release),
        f"# {config.name or 'ELMo'}",
        *_summary(config, release),
        "## Sizes",
        _table(("", ""), _sizes(config, num_words, storage, num_bytes)),
        *([] if release is None else ["## Data", *_data(config, release)]),
        "## Training",
        *_training(config),
        *([] if release is None else _measured(release)),
        "## Limits",
        "\n".join(f"- {limit}" for limit in _limits(config, release)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(config: ElmoConfig, release: Release | None) -> str:
    """YAML for the Hugging Face hub."""
    lines = ["---"]
    if config.licence:
        is_id = re.fullmatch(r"[A-Za-z0-9.-]+", config.licence)
        lines.append(f"license: {config.licence.lower() if is_id else 'other'}")
    if release is not None:
        lines.append(f"language: {release.language}")
    lines += ["library_name: relmo", "pipeline_tag: feature-extraction"]
    return "\n".join([*lines, "tags:", "- elmo", "- word-embeddings", "- language-model", "---"])


def _summary(config: ElmoConfig, release: Release | None) -> list[str]:
    by_letters = isinstance(config.tokens, CharCnnConfig)
    shape = f"{config.num_layers} layers of width {config.width}"
    name = "path/to/this/folder" if release is None else config.name
    example = f"({config.num_layers}, 4, {config.width})"
    return [
        f"An ELMo model: {shape} for every word of a sentence, from a forward and a backward "
        f"language model. Words are {'spelled' if by_letters else 'looked up in a vocabulary'}.",
        f"    from relmo import Elmo\n"
        f'    elmo = Elmo.from_pretrained("{name}")\n'
        f'    elmo.embed([["The", "bank", "raised", "rates"]])[0].shape    # {example}',
        "" if release is None else release.install,
    ]


def _sizes(
    config: ElmoConfig, num_words: int | None, storage: Storage, num_bytes: int | None
) -> list[tuple[str, str]]:
    tokens, lstm = config.tokens, config.lstm
    parameters = sum(shape.numel() for shape in expected_shapes(config).values())
    words = f"vocabulary of {getattr(tokens, 'num_words', 0):,} words"
    if isinstance(tokens, CharCnnConfig):
        words = f"{tokens.num_filters:,} filters over {tokens.scheme.replace('_', ' ')}, "
        words += f"{tokens.num_highways} highway{'' if tokens.num_highways == 1 else 's'}"
    stored = storage if num_bytes is None else f"{storage}, {num_bytes / 1e6:,.1f} MB"
    return [
        ("layers and width", f"{config.num_layers}, {config.width:,}"),
        ("parameters", f"{parameters:,} without the softmax"),
        ("words", words),
        (
            "LSTMs",
            f"{lstm.num_layers} per direction, {lstm.cell_width:,} cells, "
            f"output width {lstm.output_width:,}",
        ),
        ("softmax", "none" if num_words is None else f"{num_words:,} words"),
        ("tokenizer", config.tokenizer),
        ("state before a sentence", "stored" if config.start == "stored" else "zero"),
        ("storage", stored),
        ("licence", config.licence or "not stated"),
    ]


def _data(config: ElmoConfig, release: Release) -> list[str]:
    sources = [(f"[{s.name}]({s.url})", s.terms) for s in release.sources]
    data = config.training.get("data", {})
    tokens, documents = data.get("tokens", {}), data.get("documents", {})
    held_out = (
        f"Trained on {tokens.get('train', 0):,} tokens of {documents.get('train', 0):,} documents. "
        f"{documents.get('held_out', 0):,} documents ({tokens.get('held_out', 0):,} tokens) were "
        f"held out: {data.get('held_out', 0):.2%} of all, chosen by a hash of their text and the "
        f"seed {data.get('seed', 0)} (`relmo.tasks.lm.token_cache.is_held_out`). "
        f"Sentence boundaries count as tokens."
    )
    copies = ""
    if release.held_out is not None:
        dropped = [
            f"{counts['dropped']:,} of {counts['documents']:,} in {text}"
            for text, counts in release.held_out["corpora"].items()
        ]
        copies = (
            f"Held-out documents that also occur in the training text (more than "
            f"{release.held_out['max_copied']:.0%} of their eight-word sequences) were excluded: "
            f"{', '.join(dropped)}."
        )
    note = f"The weights are licensed under {config.licence}; the file LICENSE names the sources."
    return [_table(("text", "terms"), sources), held_out, copies, note]


def _training(config: ElmoConfig) -> list[str]:
    record = config.training
    if not record:
        return ["Not recorded."]
    rows = list(_training_rows(record))
    if not rows:
        return [f"```json\n{json.dumps(dict(record), indent=2, ensure_ascii=False)}\n```"]
    recipe = record.get("recipe")
    block = f"```toml\n{_toml(recipe)}\n```" if isinstance(recipe, Mapping) else ""
    return [_table(("", ""), rows), block, "config.json contains the full record."]


def _training_rows(record: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The rows for what our trainer recorded."""
    for key, label in (("tokens_seen", "tokens seen"), ("steps", "steps")):
        if isinstance(record.get(key), int):
            yield label, f"{record[key]:,}"
    if isinstance(record.get("seconds"), int | float):
        yield "training time", f"{record['seconds'] / 60:,.1f} minutes"
    for key in ("hardware", "seed", "commit"):
        if record.get(key) not in (None, ""):
            yield key, str(record[key])
    if isinstance(record.get("versions"), Mapping):
        yield "versions", ", ".join(f"{k} {v}" for k, v in record["versions"].items())
    results = record.get("results")
    if isinstance(results, Mapping) and isinstance(results.get("held_out_mean"), float):
        yield "held-out perplexity at the end", f"{results['held_out_mean']:.2f}"


def _measured(release: Release) -> list[str]:
    return [
        f"![Held-out perplexity over tokens seen]({release.curve})",
        "## Perplexity",
        "On held-out text, with the full softmax, of the model as stored here; words outside the "
        "vocabulary count as `<UNK>`. State is carried through a document, or each sentence starts "
        "from the stored state or from zero. Perplexities are comparable only for the same text "
        "and vocabulary.",
        *_perplexities(release.texts),
        "## Senses",
        f"{release.senses['num_triples']:,} times, an ambiguous word occurs in two sentences with "
        f"the same sense and in one with another. Accuracy is how often the vectors of the same "
        f"sense are closer. Vectors without context score 50%.",
        _table(
            ("layer", "accuracy (%)"),
            [(name, f"{value:.1f}") for name, value in release.senses["percent"].items()],
        ),
    ]


def _perplexities(texts: Mapping[str, Any]) -> list[str]:
    """Tables for the model as stored and, if that was measured, for the cost of 8 bits."""
    has_cost = all("float32" in found["perplexity"] for found in texts.values())
    rows = _perplexity_rows(texts, has_cost)
    if not has_cost:
        return [_table(PERPLEXITY_COLUMNS, rows)]
    cosines = [
        (text, str(number), f"{layer['mean']:.5f}", f"{layer['minimum']:.5f}")
        for text, found in texts.items()
        for number, layer in enumerate(found["cosine"])
    ]
    return [
        "The last columns show the cost of 8-bit storage.",
        _table((*PERPLEXITY_COLUMNS, *COST_COLUMNS), rows),
        "Cosine between a token's vectors in float32 and in 8 bits, mean and minimum:",
        _table(("text", "layer", "mean", "minimum"), cosines),
    ]


def _perplexity_rows(texts: Mapping[str, Any], has_cost: bool) -> Iterable[Sequence[str]]:
    for text, found in texts.items():
        for start, scores in found["perplexity"]["int8"].items():
            directions = (f"{scores[key]:.2f}" for key in ("forward", "backward", "mean"))
            counts = f"{scores['tokens']:,}", f"{scores['unknown_rate']:.2%}"
            cost: tuple[str, ...] = ()
            if has_cost:
                before = found["perplexity"]["float32"][start]["mean"]
                cost = f"{before:.2f}", f"{scores['mean'] / before - 1:+.2%}"
            yield text, start, *directions, *counts, *cost


def _limits(config: ElmoConfig, release: Release | None) -> list[str]:
    limits = [*([] if release is None else release.limits), *LIMITS]
    if config.has_start_state:
        which = STORED_START if config.start == "stored" else ZERO_START
        cost = "" if release is None else _other_start(release.texts, config.start)
        limits.append(which + cost)
    tokens = config.tokens
    if isinstance(tokens, CharCnnConfig):
        unit = "bytes" if tokens.scheme == "bytes" else "characters"
        limits.append(f"Words are cut after {tokens.max_characters - 2} {unit}.")
    return limits


def _other_start(texts: Mapping[str, Any], own: Start) -> str:
    """How perplexity changes with the start state that is not the model's default."""
    other = "zero" if own == "stored" else "stored"
    scores = [found["perplexity"]["int8"] for found in texts.values()]
    costs = sorted(each[other]["mean"] / each[own]["mean"] - 1 for each in scores)
    return f" That changes perplexity by {costs[0]:+.1%} to {costs[-1]:+.1%}."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _toml(recipe: Mapping[str, Mapping[str, Any]]) -> str:
    """Sections of plain values; None, which TOML lacks, is omitted."""
    lines = []
    for name, section in recipe.items():
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {json.dumps(v)}" for key, v in section.items() if v is not None]
    return "\n".join(lines[1:])
