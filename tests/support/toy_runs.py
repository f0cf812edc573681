"""Tiny run records, made up here, with checksums as real ones have."""

import json
from pathlib import Path

from relmo.training.run import write_record

BASE, SMALL = "relmo-en-base", "relmo-en-small"
MEASURES = dict.fromkeys(("sst", "snli", "sst-phrases", "pos"), "accuracy")


STUDY = f"""
models = ["{BASE}", "{SMALL}"]
compared_tasks = ["ner", "sst", "snli"]
share_tasks = ["ner", "sst"]
shares = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
targets = {{ pos = 94, wsd = 1.5 }}
texts = {{ snli = "SNLI" }}
added.all = {{ "optimizer.bilm_rate" = 1.0 }}
"""


class Runs:
    """A folder of records, with the report.toml of their study unless it is empty."""

    def __init__(self, folder: Path, study: str = "") -> None:
        self.folder = folder
        if study:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "report.toml").write_text(study, encoding="utf-8")

    def write(self, name: str, facts: dict) -> Path:
        path = self.folder / name / "run.json"
        path.parent.mkdir(parents=True)
        write_record(path, facts)
        return path

    def task(
        self, name, test, *, dev=50.0, task="ner", elmo=None, seed=0, share=None, data="toy", **more
    ) -> Path:
        """A run of a task; `more` are values of the recipe's input, or of the record itself."""
        record = {
            key: more.pop(key)
            for key in ("curve", "test_counts", "mixes", "best_step", "vectors")
            if key in more
        }
        files = {
            part: {"name": f"{part}.txt", "sha256": f"{data}{part}"} for part in ("train", "test")
        }
        given = {"place": "input", "layers": "mix", "l2": 0.001, "elmo_dropout": 0.5, **more}
        measure = MEASURES.get(task, "f1")
        facts = {
            "task": task,
            "data": {"name": data, "train": 1000, "dev": 200, "test": 300, "files": files},
            "elmo": elmo and {"name": elmo, "fingerprint": "f" * 8},
            "recipe": {
                "input": given,
                "model": {"dropout": given.pop("model_dropout", 0.5)},
                "training": {"epochs": 2, "seed": seed},
            },
            "seed": seed,
            "parameters": 1_500_000,
            "steps": 500,
            "best_step": 400,
            "seconds": 90.0,
            "mixes": {},
            "results": {f"dev_{measure}": dev, f"test_{measure}": test},
            **record,
        }
        if share is not None:
            facts["data"]["share"] = share
        return self.write(name, facts)

    def other(self, name, task, results, elmo=BASE, **more) -> Path:
        """A record of something that is no task of the paper."""
        model = {"name": elmo, "fingerprint": "f" * 8}
        return self.write(name, {"task": task, "elmo": model, "results": results, **more})


def fill(runs: Runs) -> None:
    """Records for every section."""
    for seed in (0, 1):
        runs.task(f"ner-none-{seed}", 80.0 + seed, dev=81.0, seed=seed)
        mixes = {"input": {"weights": [0.2, 0.5, 0.3], "gamma": 0.7}}
        curve = {"step": [100, 200], "dev_f1": [80.0, 82.0]}
        runs.task(f"ner-base-{seed}", 90.0 + seed, dev=91.0, seed=seed, elmo=BASE, mixes=mixes,
                  curve=curve)  # fmt: skip
    runs.task("ner-small", 85.0, dev=86.0, elmo=SMALL)
    runs.task("ner-top", 88.0, dev=88.0, elmo=BASE, layers="top")
    runs.task("ner-l1", 87.0, dev=87.0, elmo=BASE, l2=1.0)
    mixes = {place: {"weights": [0.5, 0.3, 0.2], "gamma": 1.5} for place in ("input", "output")}
    runs.task("ner-both", 86.0, dev=86.0, elmo=BASE, place="both", mixes=mixes)
    for share in (0.01, 0.1):
        runs.task(f"ner-none-{share}", 40.0, share=share)
        runs.task(f"ner-base-{share}", 82.0, share=share, elmo=BASE)
    layers = {"layer_0": 60.0, "layer_1": 65.9, "layer_2": 67.1, "plain_layer_1": 64.0,
              "plain_layer_2": 63.0, "first_sense": 65.0, "most_frequent": 65.5}  # fmt: skip
    sets = "test", "senseval2"
    runs.other("wsd", "probe-wsd", {f"{s}_f1_{m}": v for s in sets for m, v in layers.items()})
    tags = {"layer_0": 88.0, "layer_1": 95.0, "layer_2": 94.0, "mix": 95.5, "most_frequent": 85.0}
    runs.other("pos", "probe-pos", {f"test_accuracy_{m}": v for m, v in tags.items()})
    runs.other("wic", "probe-wic", {"test_accuracy_layer_2": 58.0, "dev_accuracy_layer_2": 59.0})
    near = {"static": [["plays", 0.71], ["game|s", 0.6]], "context": [["<i> play here", 0.8, 1]]}
    runs.other("play", "neighbors", near, word="play", sentence="a good play")
    measures = "self_similarity", "intra_sentence", "explained_variance", "anisotropy"
    values = {f"{m}_layer_{n}": 0.9 - 0.1 * n for m in measures for n in range(3)}
    runs.other("intrinsic", "probe-intrinsic", values | {"anisotropy_layer_2": 0.1, "words": 12.0})
    ways, parts = ("forward", "backward", "both"), ("overall", "binding", "paradigm/principle_A")
    runs.other("pairs", "probe-blimp", {f"{p}_accuracy_{w}": 77.0 for p in parts for w in ways})
    tuned = {"snli_before": 60.0, "snli_after": 20.0, "snli_unknown_rate": 0.015}
    runs.other("tuned", "tuned-perplexity", tuned)


def collect(folder: Path, collection: Path) -> None:
    """The records below a folder as a collection."""
    collection.parent.mkdir(parents=True, exist_ok=True)
    with collection.open("w", encoding="utf-8") as file:
        for path in sorted(folder.rglob("run.json")):
            entry = {"run": path.parent.name, "record": json.loads(path.read_text("utf-8"))}
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")
