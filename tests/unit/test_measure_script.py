"""scripts/measure_model.py: the shipped model is written, and what that costs is measured."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from relmo import Elmo
from relmo.nn.bilm import BiLM, initialize
from relmo.text.lexicon import Lexicon
from scripts import measure_model
from tests.conftest import tiny_config

ROOT = Path(__file__).parents[2]
WORDS = ("<S>", "</S>", "<UNK>", "the", "bank", "raised", "rates", ".", "we", "sat")
TEXT = "The bank raised the rates. We sat.\nthe bank sat.\n\nWe raised the bank 😀.\n"


def write_model(folder, **changes) -> None:
    """A tiny model with a softmax."""
    generator = torch.Generator().manual_seed(3)
    bilm = initialize(BiLM(tiny_config(**changes)), seed=1)
    for buffer in bilm.buffers():
        buffer.copy_(torch.randn(buffer.shape, generator=generator))
    weight = torch.randn(len(WORDS), 8, generator=generator)
    head = {"weight": weight, "bias": torch.zeros(len(WORDS))}
    Elmo(bilm, Lexicon(WORDS), lambda: head).save_pretrained(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder that the script was run in."""
    folder = tmp_path_factory.mktemp("measure")
    write_model(folder / "trained", start="stored")
    for name in ("news", "wiki"):
        (folder / f"{name}.txt").write_text(f"{TEXT}\n{name}\n")
    model, texts = str(folder / "trained"), map(str, sorted(folder.glob("*.txt")))
    output = str(folder / "output")
    measure_model.main(["--model", model, "--output", output, "--device", "cpu", "--text", *texts])
    return folder


@pytest.fixture(scope="module")
def measures(run):
    return json.loads((run / "output" / "measures.json").read_text())


def test_the_shipped_model_is_stored_in_eight_bits(run):
    config = json.loads((run / "output" / "model" / "config.json").read_text())
    assert config["storage"] == "int8"


@pytest.mark.parametrize(("storage", "model"), [("float32", "trained"), ("int8", "output/model")])
@pytest.mark.parametrize("start", ["zero", "stored", "carried"])
def test_perplexities_are_those_of_each_model(run, measures, storage, model, start):
    elmo = Elmo.from_pretrained(run / model, device="cpu")
    documents = [elmo.sentences(each.split("\n")) for each in (*TEXT.split("\n\n"), "wiki")]
    wanted = asdict(elmo.lm.perplexity(documents, start))
    found = measures["texts"]["wiki"]["perplexity"][storage][start]
    assert found == pytest.approx(wanted, rel=1e-6)
    names = {"forward", "backward", "mean", "tokens", "unknown_rate", "bits_per_character"}
    assert set(found) == names


def test_eight_bits_change_perplexity_a_little(measures):
    for text in measures["texts"].values():
        trained, shipped = text["perplexity"]["float32"], text["perplexity"]["int8"]
        for start in ("zero", "stored", "carried"):
            assert trained[start]["mean"] != shipped[start]["mean"]
            assert trained[start]["mean"] == pytest.approx(shipped[start]["mean"], rel=0.05)


def test_vectors_point_almost_the_same_way_in_every_layer(measures):
    for text in measures["texts"].values():
        assert len(text["cosine"]) == 3
        for layer in text["cosine"]:
            assert 0.99 < layer["minimum"] <= layer["mean"] <= 1


def test_where_it_was_measured_is_recorded(measures):
    assert measures["model"] == "tiny"
    assert measures["device"] == "cpu"
    assert measures["versions"]["torch"] == torch.__version__


def test_cosines_are_these_by_hand():
    a = np.array([[[3.0, 4.0], [1.0, 0.0]]], dtype=np.float32)  # (1, 2, 2)
    b = np.array([[[4.0, 3.0], [2.0, 0.0]]], dtype=np.float32)
    assert measure_model.cosines(a, b) == [{"mean": pytest.approx(0.98), "minimum": 0.96}]


def test_vectors_of_zeros_are_no_error():
    zeros = np.zeros((1, 2, 4), dtype=np.float32)
    assert measure_model.cosines(zeros, zeros) == [{"mean": 0.0, "minimum": 0.0}]


def test_only_the_first_tokens_are_compared():
    documents = [[["a", "b"], ["c"]], [["d"] * 5, ["e"]]]
    assert list(measure_model.first_sentences(documents, 3)) == [["a", "b"], ["c"]]
    assert list(measure_model.first_sentences(documents, 4)) == [["a", "b"], ["c"], ["d"] * 5]


def test_a_text_is_read_by_whole_documents_up_to_a_number_of_tokens(run, tiny):
    found = measure_model.read_text(tiny, run / "news.txt", 3)
    assert found == [tiny.sentences(TEXT.split("\n\n")[0].split("\n"))]
    assert len(measure_model.read_text(tiny, run / "news.txt", None)) == 3


def test_a_model_without_a_start_state_is_measured_from_the_other_starts(run, tmp_path, capsys):
    write_model(tmp_path / "trained")
    model, text = str(tmp_path / "trained"), str(run / "news.txt")
    options = ["--model", model, "--text", text, "--device", "cpu"]
    measure_model.main([*options, "--output", str(tmp_path / "output")])
    rows = [row.split(" | ") for row in capsys.readouterr().out.splitlines() if row]
    scored = [(row[1], row[2]) for row in rows if len(row) == 8][2:]
    storages = ("float32", "int8")
    assert scored == [(start, each) for start in ("zero", "carried") for each in storages]
    assert [row[1] for row in rows if len(row) == 4][2:] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["gone.txt"], "gone.txt: cannot be read"),
        (["empty.txt"], "empty.txt: contains no words to score"),
        (["news.txt", "news.txt"], "two texts have the same name"),
    ],
)
def test_texts_that_cannot_be_measured_are_named(run, tmp_path, names, message, capsys):
    (run / "empty.txt").write_text("\n")
    texts = [str(run / name) for name in names]
    with pytest.raises(SystemExit, match="1"):
        measure_model.main(
            ["--model", str(run / "trained"), "--output", str(tmp_path), "--text", *texts]
        )
    assert message in capsys.readouterr().err


def test_it_runs_where_only_torch_numpy_and_safetensors_are(run, tmp_path):
    code = (
        "import runpy, sys\n"
        "for name in ('typer', 'rich', 'h5py', 'pyarrow', 'zstandard'): sys.modules[name] = None\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    script = str(ROOT / "scripts" / "measure_model.py")
    options = ["--model", str(run / "trained"), "--text", str(run / "news.txt"), "--device", "cpu"]
    command = [sys.executable, "-c", code, script, *options, "--output", str(tmp_path)]
    env = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "PATH": ""}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| news | carried | int8 |" in done.stdout
