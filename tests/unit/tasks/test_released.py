"""A run as a model to share: small files that load anywhere, checksums, a card made from facts."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from relmo.errors import ConfigError, ModelNotFound, WeightError
from relmo.tasks import run as run_module
from relmo.tasks.installed import describe_task
from relmo.tasks.model_card import About, DataSource
from relmo.tasks.predictor import load
from relmo.tasks.released import export_task, store
from relmo.tasks.run import TaskCard, load_task
from relmo.training.run import read_record
from relmo.weights.checksums import write_sums
from tests.support.toy_tasks import TOYS, train_toy

STORAGES = ["int8", "float16", "float32"]
WIDE = ["training.epochs=2", "model.cell_width=32", "input.random_width=400"]
TEXT = "ada inc in rome"
ABOUT = About(
    name="relmo-en-toy",
    summary="Names in toy sentences.",
    language="en",
    licence="CC-BY-SA-4.0",
    sources=(DataSource(name="Toys", url="https://toys.example", terms="CC BY 4.0"),),
    example=(TEXT,),
    wrong="Names that it has never seen.",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return TOYS["ner"].write_parts(tmp_path_factory.mktemp("ner"), 24, 8)


@pytest.fixture(scope="module")
def elmo_folder(tmp_path_factory, tiny):
    folder = tmp_path_factory.mktemp("elmo") / "mine"
    tiny.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data, elmo_folder):
    """Two runs that differ by their seed."""
    home = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        changes = [*WIDE, f"training.seed={seed}"]
        train_toy("ner", data, home / str(seed), elmo_folder, *changes, cache=home / "cache")
    return [home / "0", home / "1"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory, runs, tiny, data):
    """Storage -> the exported model."""
    home = tmp_path_factory.mktemp("exported")
    for storage in STORAGES:
        options = {"storage": storage, "licence_text": "Do good.\n", "elmo": tiny}
        export_task(
            runs[0], home / storage, ABOUT, others=runs[1:], test=data / "test.txt", **options
        )
    return {storage: home / storage for storage in STORAGES}


@pytest.fixture
def copied(exported, tmp_path):
    """A copy of the model in 8 bits that a test may damage."""
    return Path(shutil.copytree(exported["int8"], tmp_path / "model"))


def weights(folder):
    return load_file(folder / "best.safetensors")


# ── weights ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("storage", STORAGES)
def test_a_model_in_any_storage_loads_as_float32_and_answers(exported, runs, tiny, storage):
    task = load_task(exported[storage], elmo=tiny, device="cpu")
    before = load_task(runs[0], elmo=tiny, device="cpu").model.state_dict()
    for name, tensor in task.model.state_dict().items():
        assert tensor.dtype == before[name].dtype
        assert torch.all((tensor - before[name]).abs() <= before[name].abs().max() / 200)
    one, two = (load(place, elmo=tiny, device="cpu") for place in (runs[0], exported[storage]))
    answers = [[(e.label, e.start, e.end) for e in model(TEXT)] for model in (one, two)]
    assert answers[0] == answers[1]


def test_float32_is_exact(exported, runs):
    one, two = weights(runs[0]), weights(exported["float32"])
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_matrices_shrink_and_vectors_transitions_and_small_ones_stay(exported):
    stored = weights(exported["int8"])
    assert stored["tokens.static.weight"].dtype == torch.int8
    assert stored["tokens.static.weight.scale"].shape == stored["tokens.static.weight"].shape[:1]
    for name, tensor in stored.items():
        if tensor.dtype == torch.int8:
            assert tensor.numel() >= 4096
            assert stored[name + ".scale"].dtype == torch.float32
    for name in ("crf.transitions", "crf.start", "tokens.mixes.input.s", "to_tags.weight"):
        assert stored[name].dtype == torch.float32
    assert weights(exported["float16"])["tokens.static.weight"].dtype == torch.float16


def test_large_transitions_stay_as_they_are():
    tensors = {"crf.transitions": torch.randn(100, 100), "w": torch.randn(100, 100)}
    assert store(tensors, "int8").keys() == {"crf.transitions", "w", "w.scale"}
    assert store(tensors, "float16")["crf.transitions"].dtype == torch.float32


def test_smaller_storage_makes_a_smaller_file(exported):
    sizes = [(exported[each] / "best.safetensors").stat().st_size for each in STORAGES]
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.5 * sizes[2]


def test_an_exported_model_can_be_exported_again(exported, tmp_path):
    about = About(name="again")
    facts = export_task(exported["int8"], tmp_path / "again", about, storage="int8")
    assert facts["model"] == "again"
    one, two = weights(exported["int8"]), weights(tmp_path / "again")
    assert all(torch.equal(one[name], two[name]) for name in one if not name.endswith(".scale"))


# ── the folder ──────────────────────────────────────────────────────────────────────────────


def test_no_file_names_a_place_on_this_machine(exported, runs, elmo_folder):
    assert str(elmo_folder) in (runs[0] / "task.json").read_text()
    assert TaskCard.read(exported["int8"]).elmo["place"] == "tiny"
    for path in exported["int8"].iterdir():
        content = path.read_bytes()
        assert b"/tmp" not in content
        assert str(runs[0].parent).encode() not in content
        assert str(Path.home()).encode() not in content


def test_the_folder_has_what_is_needed_and_nothing_else(exported):
    assert {path.name for path in exported["int8"].iterdir()} == {
        "task.json", "words.json", "best.safetensors", "run.json", "SHA256SUMS", "README.md",
        "LICENSE",
    }  # fmt: skip
    assert (exported["int8"] / "LICENSE").read_text() == "Do good.\n"


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum")
def test_sha256sum_can_check_it(exported):
    subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=exported["int8"], check=True)


def test_the_record_is_the_run_s_without_counts_and_still_sealed(exported, runs):
    record, whole = (read_record(place / "run.json") for place in (exported["int8"], runs[0]))
    for key in ("data", "elmo", "recipe", "seed", "results", "versions", "commit", "hardware"):
        assert record[key] == whole[key]
    assert not {"test_counts", "cache"} & record.keys()
    release = record["release"]
    assert (release["name"], release["storage"]) == ("relmo-en-toy", "int8")
    assert release["runs"] == [{"seed": 1, "results": read_record(runs[1] / "run.json")["results"]}]


def test_a_run_s_weights_may_be_read_by_others(exported, runs):
    for folder in (exported["int8"], runs[0]):
        assert (folder / "best.safetensors").stat().st_mode & 0o444 == 0o444


def test_only_an_exported_model_is_replaced(exported, runs, tmp_path):
    about = About(name="again")
    for _ in range(2):
        export_task(runs[0], tmp_path / "out", about)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").touch()
    with pytest.raises(ConfigError, match="notes exists and is no exported task model"):
        export_task(runs[0], tmp_path / "notes", about)
    with pytest.raises(ConfigError, match="is the run itself; choose another output"):
        export_task(runs[0], runs[0], about)
    with pytest.raises(ConfigError, match="unknown storage 'int4'; choose int8, float16, float32"):
        export_task(runs[0], tmp_path / "x", about, storage="int4")


def test_a_failure_leaves_no_folder(runs, data, tmp_path, tiny):
    with pytest.raises(ConfigError, match=r"train\.txt is not the file that the run was tested on"):
        export_task(runs[0], tmp_path / "out", ABOUT, test=data / "train.txt", elmo=tiny)
    assert not list(tmp_path.iterdir())


def test_an_unfinished_run_is_not_exported(runs, tmp_path):
    shutil.copytree(runs[0], tmp_path / "run")
    (tmp_path / "run" / "run.json").unlink()
    with pytest.raises(ModelNotFound, match=r"run is unfinished: it has no run\.json; finish it"):
        export_task(tmp_path / "run", tmp_path / "out", ABOUT)


def test_other_runs_differ_by_their_seed_alone(runs, data, tmp_path, elmo_folder):
    about = About(name="x")
    with pytest.raises(ConfigError, match="has the seed of the first run, 0"):
        export_task(runs[0], tmp_path / "out", about, others=[runs[0]])
    train_toy("ner", data, tmp_path / "run", None, "training.epochs=1", "training.seed=2")
    with pytest.raises(ConfigError, match="run differs from the first run in its ELMo"):
        export_task(runs[0], tmp_path / "out", about, others=[tmp_path / "run"])


# ── damage ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["best.safetensors", "task.json", "words.json"])
def test_one_flipped_bit_is_named_before_anything_is_built(copied, tiny, name, monkeypatch):
    content = bytearray((copied / name).read_bytes())
    content[-10] ^= 1
    (copied / name).write_bytes(content)
    monkeypatch.setattr(run_module, "_make_task", None)
    with pytest.raises(WeightError, match=rf"{name}.*damaged|damaged.*{name}|{name} is damaged"):
        load_task(copied, elmo=tiny, device="cpu")


def test_without_sums_the_weights_own_checksum_still_notices(copied, tiny):
    (copied / "SHA256SUMS").unlink()
    content = bytearray((copied / "best.safetensors").read_bytes())
    content[-10] ^= 1
    (copied / "best.safetensors").write_bytes(content)
    with pytest.raises(WeightError, match=r"best\.safetensors: damaged, its checksum does not"):
        load_task(copied, elmo=tiny, device="cpu")


STATIC = "tokens.static.weight"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t.pop(STATIC + ".scale"), f"'{STATIC}' lacks its '{STATIC}.scale'"),
        (lambda t: t.pop(STATIC), f"lacks '{STATIC}'"),
        (
            lambda t: t.update({STATIC + ".scale": torch.ones(3)}),
            r"scale' has the shape \(3,\), ex",
        ),
        (lambda t: t.update({"other.scale": torch.ones(3)}), "unexpected 'other.scale'"),
        (lambda t: t.update({STATIC: torch.zeros(2, 10**4)}), rf"'{STATIC}.*has the shape"),
    ],
)
def test_weights_that_do_not_fit_are_named(copied, tiny, damage, message):
    path = copied / "best.safetensors"
    size = int.from_bytes(path.read_bytes()[:8], "little")
    metadata = json.loads(path.read_bytes()[8 : 8 + size])["__metadata__"]
    tensors = weights(copied)
    damage(tensors)
    save_file(tensors, path, {"best": metadata["best"]})  # as an attacker would: no checksum
    write_sums(copied, [path.name])
    with pytest.raises(WeightError, match=message):
        load_task(copied, elmo=tiny, device="cpu")


# ── what is said of it ──────────────────────────────────────────────────────────────────────


def test_it_is_described_by_its_files(exported, runs, tiny):
    facts = describe_task(exported["int8"])
    assert (facts["model"], facts["task"], facts["labels"]) == (
        "relmo-en-toy", "ner", ["LOC", "ORG", "PER"],
    )  # fmt: skip
    assert facts["results"] == read_record(runs[0] / "run.json")["results"]
    assert facts["stored"].keys() <= facts["results"].keys()
    assert "no model 'tiny'" in facts["elmo"]["problem"]
    assert facts["licence"] == "CC-BY-SA-4.0"
    assert facts["sources"][0]["name"] == "Toys"
    total = sum(path.stat().st_size for path in exported["int8"].iterdir())
    assert sum(facts["parts"].values()) == total
    assert facts["parts"].keys() == {"network", "letters", "word vectors", "words", "other files"}
    assert facts["parameters"] == sum(t.numel() for t in weights(runs[0]).values())
    matches = {name: about["matches"] for name, about in facts["files"].items()}
    assert matches["best.safetensors"] is True
    assert matches["README.md"] is None


def test_a_run_is_described_too(runs, elmo_folder):
    facts = describe_task(runs[0])
    assert facts["elmo"]["problem"] is None
    assert (facts["storage"], facts["licence"], facts["runs"]) == ("float32", "not stated", [])


def test_another_version_of_the_elmo_is_told(copied, elmo_folder):
    for fingerprint, problem in (("0" * 64, "the installed tiny is another version"), (None, None)):
        card = json.loads((copied / "task.json").read_text())
        card["elmo"]["place"] = str(elmo_folder)
        card["elmo"]["fingerprint"] = fingerprint or card["elmo"]["fingerprint"]
        del card["seal"]
        text = (copied / "task.json").read_text()
        (copied / "task.json").write_text(json.dumps(card))
        found = describe_task(copied)["elmo"]["problem"]
        assert found == problem or found.startswith(problem)
        (copied / "task.json").write_text(text)


def test_the_card_is_made_from_the_facts(exported, runs):
    card = (exported["int8"] / "README.md").read_text()
    front, _, rest = card.removeprefix("---\n").partition("\n---\n")
    assert front.splitlines()[:4] == [
        "license: cc-by-sa-4.0", "language: en", "library_name: relmo",
        "pipeline_tag: token-classification",
    ]  # fmt: skip
    assert rest.startswith("\n# relmo-en-toy\n\nNames in toy sentences.\n")
    assert f'toy = relmo.load("relmo-en-toy")\ntoy("{TEXT}")\n# [' in rest
    results = [read_record(run / "run.json")["results"] for run in runs]
    mean = sum(each["test_f1"] for each in results) / 2
    row = next(line for line in rest.splitlines() if line.startswith("| test F1 |"))
    assert row.startswith(f"| test F1 | {results[0]['test_f1']:.2f} % |")
    assert f"| {mean:.2f} % ± " in row
    for wanted in (
        "| as stored (int8) | mean of 2 seeds, ± standard deviation |",
        "the run with seed 0; seeds of the other runs: 1.",
        "calibrated on the dev part",
        "| [Toys](https://toys.example) | CC BY 4.0 |",
        "Examples: 24 in train, 8 in dev, 8 in test. Labels: LOC, ORG, PER.",
        "It reads with the ELMo model tiny (fingerprint `",
        "## What it gets wrong\n\nNames that it has never seen.",
        "| word vectors | ",
        "licensed under CC-BY-SA-4.0",
        'place = "input"',
    ):
        assert wanted in rest
    assert not re.search(r"\d\.\d{5}", rest.partition("## Scores")[0])


def test_a_card_of_few_facts_leaves_out_what_it_does_not_know(runs, tmp_path):
    export_task(runs[0], tmp_path, About(name="plain-model"), storage="int8")
    card = (tmp_path / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: relmo\n")
    assert "## What it gets wrong" not in card
    assert "before they were rounded for storage" in card
    assert not (tmp_path / "LICENSE").exists()
