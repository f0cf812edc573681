"""Build the folder of a released model: measured weights, licence, curve and model card.

    python scripts/release_model.py --run runs/base --measures measured/measures.json \
        --senses senses.json --model measured/model --output models/relmo-en-base/src/relmo_en_base

The weights are copied byte for byte. config.json gets the licence and the record of the run. All
inputs must belong to the same model: the checksums of the run's record and of the model's files and
the fingerprint of the measured model are checked. Needs 'relmo[report]'.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from relmo.config import ElmoConfig, Start
from relmo.elmo import Elmo
from relmo.errors import ConfigError, RelmoError, exit_code, need_extra
from relmo.files import read_json, replacing
from relmo.training.run import read_record
from relmo.weights.find import PACKAGES, describe_folder
from relmo.weights.model_card import CardExtras, model_card, table
from relmo.weights.native import CARD, read_config, replacing_model, write_config

LICENCE = "CC-BY-SA-4.0"
LICENCE_FILE = Path(__file__).parents[1] / "src/relmo/models/relmo-en-small/LICENSE"
CURVE = "perplexity.svg"
RECORDED = (
    "seed", "data", "vocabulary", "steps", "tokens_seen", "seconds", "tokens_per_second",
    "results", "versions", "hardware", "commit",
)  # fmt: skip
"""Keys of run.json that are copied to config.json, besides the recipe."""
ORIGINS = ("began_from", "taught_by", "init")
"""Keys that only some runs have; `init` is the record of the run whose weights were the first."""
SOURCES = (
    (
        "[English Wikipedia, articles of 2014–15](https://en.wikipedia.org)",
        "[CC BY-SA 3.0](https://creativecommons.org/licenses/by-sa/3.0/)",
    ),
    (
        "[English Wikinews](https://en.wikinews.org)",
        "[CC BY 2.5](https://creativecommons.org/licenses/by/2.5/)",
    ),
    (
        "[Project Gutenberg, pieces of books](https://www.gutenberg.org)",
        "public domain in the United States",
    ),
)
"""(text, terms) of each source of the training text."""
MORE_SOURCES = {
    "squad": (
        "[SQuAD 1.1, questions of the training part](https://rajpurkar.github.io/SQuAD-explorer/)",
        "[CC BY-SA 4.0](https://creativecommons.org/licenses/by-sa/4.0/)",
    ),
    "goemotions": (
        "[GoEmotions, comments of the training part](https://arxiv.org/abs/2005.00547)",
        "[CC BY 4.0](https://creativecommons.org/licenses/by/4.0/)",
    ),
}
"""The same of text that only some models have read (scripts/questions_and_comments.py)."""
LIMITS = (
    "English alone. It is cased: `Bank` and `bank` are two words.",
    "Its text is an encyclopedia of 2014–15, news, most of it of 2005–08, and old books, which "
    "carry the views of their time. Later names and events are new to it.",
)
AS_STORED = "of the model as stored here"
PERPLEXITY_COLUMNS = "text", "start", "forward", "backward", "mean", "tokens", "unknown"
COST_COLUMNS = "mean in float32", "cost"


def release(
    run: Path,
    measures: Path,
    senses: Path,
    model: Path,
    output: Path,
    held_out: Path | None = None,
    more_sources: Sequence[str] = (),
    init: Path | None = None,
) -> None:
    """Build the folder `output` from a run, its measures and the model as it is stored.

    `init` is the model that the run began with, whose record becomes a part of this one's.
    """
    need_extra("report")
    record, config = read_record(run / "run.json"), read_config(model).config
    measured, sense_test = read_json(measures), read_json(senses)
    check_belongs(config, record, measured, sense_test, model)
    if init is not None:
        record = {**record, "init": dict(read_config(init).config.training)}
    near_duplicates = None if held_out is None else read_json(held_out)
    runs = list(runs_of(record))
    points = ends_of(runs) if len(runs) > 1 else read_curve(run / "metrics.jsonl", record)

    kept = [*RECORDED, *(key for key in ORIGINS if key in record)]
    training = {"recipe": recipe_of(record), **{key: record[key] for key in kept}}
    config = dataclasses.replace(config, licence=LICENCE, training=training)
    sources = [*SOURCES, *(MORE_SOURCES[name] for name in more_sources)]
    scored = measured.get("scored", AS_STORED)
    extras = card_extras(config, measured["texts"], sense_test, near_duplicates, sources, scored)
    if remark := measured.get("remark"):
        extras = dataclasses.replace(extras, after_training=[remark, *extras.after_training])
    copy_model(model, output, config)
    (output / "LICENSE").write_text(licence_of(more_sources), encoding="utf-8")
    with replacing(output / CURVE) as temporary:
        draw_curve(points, temporary)
    with replacing(output / CARD) as temporary:
        temporary.write_text(card_of(output, config, extras), encoding="utf-8")
    check_files(output)


def check_belongs(
    config: ElmoConfig,
    record: Mapping[str, Any],
    measures: Mapping[str, Any],
    senses: Mapping[str, Any],
    model: Path,
) -> None:
    """Raise ConfigError unless run, measures and senses belong to the model."""
    check_files(model)
    if read_config(model).storage != "int8":
        raise ConfigError(f"{model} is not stored in 8 bits; give the output of measure_model.py")
    for key in ("steps", "tokens_seen", "data", "results"):
        if config.training.get(key) != record.get(key):
            raise ConfigError(f"{model} and the run differ in {key!r}; give the run that made it")
    if measures["model"] != config.name:
        raise ConfigError(f"the measures belong to {measures['model']!r}, not to {config.name!r}")
    if senses["fingerprint"] != Elmo.from_pretrained(model, device="cpu").fingerprint():
        raise ConfigError(f"the senses belong to another model; run sense_test.py --model {model}")


def check_files(folder: Path) -> None:
    """Raise ConfigError if the checksum of a file is not the one in config.json."""
    for name, facts in describe_folder(folder)["files"].items():
        if facts["matches"] is False:
            raise ConfigError(f"{folder / name} is not the file that was written; copy it again")


def runs_of(record: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The run that a model's training began with, those after it, and this one."""
    if isinstance(record.get("init"), Mapping):
        yield from runs_of(record["init"])
    yield record


def ends_of(runs: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """(tokens seen in all, held-out perplexity) at the end of each run."""
    seen = accumulate(run["tokens_seen"] for run in runs)
    return [(float(n), run["results"]["held_out_mean"]) for n, run in zip(seen, runs, strict=True)]


def licence_of(more_sources: Sequence[str]) -> str:
    """The text of LICENSE; of the sources that only some models have, these."""
    text = LICENCE_FILE.read_text(encoding="utf-8")
    lines = {}
    for name, source in MORE_SOURCES.items():
        (what, where), (terms, url) = re.findall(r"\[(.*?)\]\((.*?)\)", " ".join(source))
        lines[name] = f"- {what}. {where}\n  {terms}, {url}\n"
        text = text.replace(lines[name], "")  # relmo-en-small's own licence names it
    before, mark, after = text.partition("\nIf you share the model")
    return before + "".join(lines[name] for name in more_sources) + mark + after


def recipe_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe without the model's shapes, which config.json contains anyway."""
    return {name: section for name, section in record["recipe"].items() if name != "model"}


def copy_model(model: Path, output: Path, config: ElmoConfig) -> None:
    """Copy the weights' files with new settings; an earlier model in `output` is replaced."""
    native = read_config(model)
    with replacing_model(output) as stage:
        for name in native.files:
            shutil.copyfile(model / name, stage / name)
        write_config(stage, config, native.storage, native.files)


# ── the card ─────────────────────────────────────────────────────────────────────────────────


def card_extras(
    config: ElmoConfig,
    texts: Mapping[str, Any],
    senses: Mapping[str, Any],
    near_duplicates: Mapping[str, Any] | None,
    sources: Sequence[tuple[str, str]] = SOURCES,
    scored: str = AS_STORED,
) -> CardExtras:
    """What the model card says beyond the model's own files."""
    install = "It comes with relmo."
    if config.name in PACKAGES:
        install = f"In a clone of relmo: `pip install {PACKAGES[config.name]}`."
    return CardExtras(
        front_matter=["language: en"],
        name=config.name,
        install=install,
        before_training=data_section(config, near_duplicates, sources),
        after_training=[*earlier_runs(config), *measured_sections(texts, senses, scored)],
        limits=LIMITS,
        start_cost=start_cost(texts, config.start) if config.has_start_state else "",
    )


def card_of(output: Path, config: ElmoConfig, extras: CardExtras) -> str:
    """The card of the model in the folder `output`."""
    num_words = config.training["vocabulary"]["words"]
    native = read_config(output)
    num_bytes = sum(facts["bytes"] for facts in native.files.values())
    return model_card(config, num_words, native.storage, num_bytes, extras)


def data_section(
    config: ElmoConfig,
    near_duplicates: Mapping[str, Any] | None,
    sources: Sequence[tuple[str, str]] = SOURCES,
) -> list[str]:
    """The sources and their terms, and the text that was held out."""
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
    if near_duplicates is not None:
        dropped = [
            f"{counts['dropped']:,} of {counts['documents']:,} in {text}"
            for text, counts in near_duplicates["corpora"].items()
        ]
        copies = (
            f"Held-out documents that also occur in the training text (more than "
            f"{near_duplicates['max_copied']:.0%} of their eight-word sequences) were excluded: "
            f"{', '.join(dropped)}."
        )
    note = f"The weights are licensed under {config.licence}; the file LICENSE names the sources."
    return ["## Data", table(("text", "terms"), sources), held_out, copies, note]


def earlier_runs(config: ElmoConfig) -> list[str]:
    """A table of all runs, if there were several."""
    runs = list(runs_of(config.training))
    if len(runs) == 1:
        return []
    total = sum(run["tokens_seen"] for run in runs)
    rows = [
        (
            str(number),
            f"{run['data']['tokens']['train']:,}",
            f"{run['tokens_seen']:,}",
            f"{run['seconds'] / 60:.0f}",
            str(run["recipe"]["lm"]["dropout"]),
            str(run["recipe"]["optimizer"]["weight_decay"]),
            f"{run['results']['held_out_mean']:.2f}",
        )
        for number, run in enumerate(runs, 1)
    ]
    columns = (
        "run", "tokens of text", "tokens seen", "minutes", "dropout", "weight decay",
        "held-out perplexity",
    )  # fmt: skip
    return [
        f"The record is that of the last of {len(runs)} runs; each began with the weights of the "
        f"one before. {total:,} tokens were seen in all.",
        table(columns, rows),
    ]


def measured_sections(
    texts: Mapping[str, Any], senses: Mapping[str, Any], scored: str = AS_STORED
) -> list[str]:
    """The curve, perplexities and senses.

    Args:
        texts: Per text `perplexity` {storage: {start: scores}} and `cosine` [{mean, minimum}], as
            measure_model.py writes them; without `int8`, of the trained weights.
        senses: `num_triples` and `percent` {reading: value}, as sense_test.py writes them.
        scored: which weights the perplexities are of.
    """
    return [
        f"![Held-out perplexity over tokens seen]({CURVE})",
        "## Perplexity",
        f"On held-out text, with the full softmax, {scored}; words outside the "
        "vocabulary count as `<UNK>`. State is carried through a document, or each sentence starts "
        "from the stored state or from zero. Perplexities are comparable only for the same text "
        "and vocabulary.",
        *perplexity_tables(texts),
        "## Senses",
        f"{senses['num_triples']:,} times, an ambiguous word occurs in two sentences with "
        f"the same sense and in one with another. Accuracy is how often the vectors of the same "
        f"sense are closer. Vectors without context score 50%.",
        table(
            ("layer", "accuracy (%)"),
            [(name, f"{value:.1f}") for name, value in senses["percent"].items()],
        ),
    ]


def perplexity_tables(texts: Mapping[str, Any]) -> list[str]:
    """Tables for the model as stored and, if that was measured, for the cost of 8 bits."""
    has_cost = all(found["perplexity"].keys() >= {"int8", "float32"} for found in texts.values())
    rows = perplexity_rows(texts, has_cost)
    if not has_cost:
        return [table(PERPLEXITY_COLUMNS, rows)]
    cosines = [
        (text, str(number), f"{layer['mean']:.5f}", f"{layer['minimum']:.5f}")
        for text, found in texts.items()
        for number, layer in enumerate(found["cosine"])
    ]
    return [
        "The last columns show the cost of 8-bit storage.",
        table((*PERPLEXITY_COLUMNS, *COST_COLUMNS), rows),
        "Cosine between a token's vectors in float32 and in 8 bits, mean and minimum:",
        table(("text", "layer", "mean", "minimum"), cosines),
    ]


def perplexity_rows(texts: Mapping[str, Any], has_cost: bool) -> Iterable[Sequence[str]]:
    """A row per text and start state."""
    for text, found in texts.items():
        for start, scores in of_stored(found).items():
            directions = (f"{scores[key]:.2f}" for key in ("forward", "backward", "mean"))
            counts = f"{scores['tokens']:,}", f"{scores['unknown_rate']:.2%}"
            cost: tuple[str, ...] = ()
            if has_cost:
                before = found["perplexity"]["float32"][start]["mean"]
                cost = f"{before:.2f}", f"{scores['mean'] / before - 1:+.2%}"
            yield text, start, *directions, *counts, *cost


def of_stored(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Scores of one text by start state: of the 8-bit weights, if they were measured."""
    perplexity: Mapping[str, Any] = found["perplexity"]
    return perplexity.get("int8") or perplexity["float32"]


def start_cost(texts: Mapping[str, Any], own: Start) -> str:
    """How perplexity changes with the start state that is not the model's default."""
    other = "zero" if own == "stored" else "stored"
    scores = [of_stored(found) for found in texts.values()]
    if not all(other in each for each in scores):
        return ""
    costs = sorted(each[other]["mean"] / each[own]["mean"] - 1 for each in scores)
    return f" That changes perplexity by {costs[0]:+.1%} to {costs[-1]:+.1%}."


# ── the curve ───────────────────────────────────────────────────────────────────────────────


def read_curve(metrics: Path, record: Mapping[str, Any]) -> list[tuple[float, float]]:
    """(tokens seen, held-out perplexity) at each evaluation of a run."""
    recipe = record["recipe"]
    per_step = recipe["training"]["accumulate"] * recipe["lm"]["rows"] * recipe["lm"]["window"]
    lines = map(json.loads, metrics.read_text(encoding="utf-8").splitlines())
    points = [
        (line["step"] * per_step, line["held_out_mean"])
        for line in lines
        if "held_out_mean" in line
    ]
    if not points:
        raise ConfigError(f"{metrics} has no held-out perplexity; set training.evaluate_every")
    return points


def draw_curve(points: Sequence[tuple[float, float]], path: Path) -> None:
    """Draw the curve as SVG, the same bytes for the same points."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogFormatter

    tokens, perplexity = zip(*points, strict=True)
    settings = {"svg.fonttype": "none", "svg.hashsalt": "relmo", "font.family": "sans-serif"}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot(
            yscale="log", xlabel="tokens seen", ylabel="held-out perplexity (log scale)"
        )
        axes.plot(tokens, perplexity, marker="o", markersize=3.5, color="#1f4e79")
        axes.annotate(
            f"{perplexity[-1]:.1f}", points[-1], (0, 7), textcoords="offset points", ha="center"
        )
        axes.set_xlim(left=0)
        axes.margins(x=0.06, y=0.12)
        axes.grid(which="both", linewidth=0.4, color="#d0d0d0")
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.yaxis.set_major_formatter(LogFormatter())
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def short(value: float) -> str:
    """A number with a unit: 1.5 B, 300 M, 20 k."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and build the folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", type=Path, required=True, help="folder with run.json")
    parser.add_argument("--measures", type=Path, required=True, help="JSON of measure_model.py")
    parser.add_argument("--senses", type=Path, required=True, help="JSON of sense_test.py")
    parser.add_argument("--model", type=Path, required=True, help="folder of the model in 8 bits")
    parser.add_argument("--output", type=Path, required=True, help="folder to build")
    parser.add_argument("--held-out", type=Path, help="near_duplicates.json of held_out.py")
    parser.add_argument(
        "--sources", nargs="*", default=[], choices=MORE_SOURCES, help="more text it has read"
    )
    parser.add_argument("--init", type=Path, help="folder of the model that the run began with")
    args = parser.parse_args(arguments)
    try:
        release(
            args.run, args.measures, args.senses, args.model, args.output, args.held_out,
            args.sources, args.init,
        )  # fmt: skip
    except RelmoError as error:
        parser.exit(exit_code(error), f"{parser.prog}: {error}\n")
    print(f"{args.output}: {json.dumps(sorted(path.name for path in args.output.iterdir()))}")


if __name__ == "__main__":
    main()
