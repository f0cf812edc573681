"""8-bit storage: the error is bounded, and a folder loads like any other."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from relmo import Elmo
from relmo.errors import WeightError
from relmo.files import sha256
from relmo.nn.bilm import BiLM, initialize
from relmo.text.lexicon import Lexicon
from relmo.weights.find import describe_model
from relmo.weights.native import Native
from relmo.weights.safetensors_files import pack, unpack_int8
from tests.conftest import tiny_config

SENTENCES = [["The", "bank", "of", "the", "river"], ["é" * 60], ["Bank", "account", "."]]
WORDS = ("<S>", "</S>", "<UNK>", "the", "bank", "of", "river", ".")


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def elmo() -> Elmo:
    """A tiny model with start state and softmax."""
    bilm = initialize(BiLM(tiny_config(start="stored")), seed=1)
    for number, (_, buffer) in enumerate(bilm.named_buffers()):
        buffer.copy_(random(*buffer.shape, seed=number))
    head = {"weight": random(len(WORDS), 8), "bias": random(len(WORDS))}
    return Elmo(bilm, Lexicon(WORDS), lambda: head)


def write(elmo, folder, **options):
    Native().write(folder, elmo._files(), storage="int8", **options)
    return folder


def change(folder, file, change_tensors):
    """Rewrite a file of the folder, and what config.json records of it."""
    tensors = load_file(folder / file)
    change_tensors(tensors)
    save_file(tensors, folder / file)
    config = json.loads((folder / "config.json").read_text())
    facts = {"bytes": (folder / file).stat().st_size, "sha256": sha256(folder / file)}
    config["files"][file] = facts
    config.pop("seal")
    (folder / "config.json").write_text(json.dumps(config))


# ── numbers ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", [(5, 7), (6, 4, 3), (1, 1), (300, 2)])
def test_a_tensor_comes_back_within_half_a_step_of_its_row(tmp_path, shape):
    tensor = random(*shape) * torch.logspace(-3, 3, shape[0]).view(-1, *[1] * (len(shape) - 1))
    packed = pack({"w": tensor}, "int8")
    assert packed["w"].dtype == torch.int8
    assert packed["w"].shape == shape
    assert packed["w.scale"].shape == shape[:1]
    back = unpack_int8(packed, tmp_path)["w"]
    step = packed["w.scale"].view(-1, *[1] * (len(shape) - 1))
    assert torch.all((back - tensor).abs() <= step * 0.5001)
    assert torch.equal(back.flatten(1).abs().amax(1) > 0, torch.ones(shape[0], dtype=bool))


def test_the_largest_value_of_a_row_is_kept(tmp_path):
    tensor = random(4, 9)
    back = unpack_int8(pack({"w": tensor}, "int8"), tmp_path)["w"]
    torch.testing.assert_close(back.abs().amax(1), tensor.abs().amax(1), rtol=1e-6, atol=0)


def test_rows_of_zeros_stay_zero(tmp_path):
    tensor = torch.tensor([[0.0, 0.0], [1.0, -2.0]])
    assert torch.equal(unpack_int8(pack({"w": tensor}, "int8"), tmp_path)["w"][0], torch.zeros(2))


def test_vectors_and_start_states_are_exact(tmp_path):
    tensors = {"bias": random(9), "start_state.forward.h": random(2, 5)}
    packed = pack(tensors, "int8")
    assert packed.keys() == tensors.keys()
    back = unpack_int8(packed, tmp_path)
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)


def test_weights_that_are_no_numbers_do_not_become_numbers(tmp_path):
    tensor = random(3, 4)
    tensor[1, 2] = float("nan")
    assert not torch.isfinite(unpack_int8(pack({"w": tensor}, "int8"), tmp_path)["w"][1]).any()


def test_what_is_packed_is_not_changed():
    tensor = random(3, 4)
    before = tensor.clone()
    pack({"w": tensor}, "int8")
    assert torch.equal(tensor, before)


# ── folders ─────────────────────────────────────────────────────────────────────────────────


def test_a_folder_loads_like_any_other_with_nearly_the_same_vectors(elmo, tmp_path):
    found = Elmo.from_pretrained(write(elmo, tmp_path), device="cpu")
    assert found.config == elmo.config
    for one, two in zip(elmo.embed(SENTENCES), found.embed(SENTENCES), strict=True):
        assert one.shape == two.shape
        cosine = (one * two).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(two, axis=-1)
        assert cosine.min() > 0.999
    files = found._files().tensors
    for name, tensor in elmo._files().tensors.items():
        is_exact = tensor.ndim == 1 or name.startswith("start_")
        assert torch.equal(files[name], tensor) == is_exact


def test_the_softmax_is_stored_so_too(elmo, tmp_path):
    found = Elmo.from_pretrained(write(elmo, tmp_path), device="cpu")
    stored = load_file(tmp_path / "lm_head.safetensors")
    assert {name: tensor.dtype for name, tensor in stored.items()} == {
        "weight": torch.int8, "weight.scale": torch.float32, "bias": torch.float32,
    }  # fmt: skip
    documents = [[["the", "bank"], ["of", "the", "river", "."]]]
    assert found.lm.perplexity(documents).mean == pytest.approx(
        elmo.lm.perplexity(documents).mean, rel=0.02
    )


def test_files_are_about_a_quarter(elmo, tmp_path):
    elmo.save_pretrained(tmp_path / "float32")
    write(elmo, tmp_path / "int8")
    sizes = [
        sum(t.nbytes for t in load_file(tmp_path / name / "model.safetensors").values())
        for name in ("int8", "float32")
    ]
    assert sizes[0] < 0.5 * sizes[1]  # tiny rows have much of scales


@pytest.mark.parametrize("shard_bytes", [2500, 3000, 4000, 7000])
def test_a_tensor_and_its_scale_are_in_one_shard(elmo, tmp_path, shard_bytes):
    write(elmo, tmp_path, shard_bytes=shard_bytes)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    whole = Elmo.from_pretrained(write(elmo, tmp_path / "whole"), device="cpu")
    assert Elmo.from_pretrained(tmp_path, device="cpu").fingerprint() == whole.fingerprint()


def test_info_tells_what_it_is(elmo, tmp_path):
    facts = describe_model(write(elmo, tmp_path))
    assert facts["parameters"] == sum(t.numel() for t in elmo._files().tensors.values())
    recorded = {n: f["matches"] for n, f in facts["files"].items() if f["matches"] is not None}
    assert recorded == {"model.safetensors": True} | dict.fromkeys(recorded, True)


def test_saved_anew_it_is_an_ordinary_model(elmo, tmp_path):
    found = Elmo.from_pretrained(write(elmo, tmp_path / "int8"), device="cpu")
    found.save_pretrained(tmp_path / "float32")
    again = Elmo.from_pretrained(tmp_path / "float32", device="cpu")
    assert again.fingerprint() == found.fingerprint()
    assert json.loads((tmp_path / "float32/config.json").read_text())["storage"] == "float32"


# ── damage ──────────────────────────────────────────────────────────────────────────────────

NAME = "forward_lstm.layers.0.input_weight"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t.pop(NAME + ".scale"), f"{NAME}' lacks its '{NAME}.scale'"),
        (lambda t: t.pop(NAME), f"lacks '{NAME}'"),
        (lambda t: t.update({NAME + ".scale": torch.ones(1)}), r"\(1,\), .* has 96 rows"),
        (lambda t: t[NAME + ".scale"].fill_(float("nan")), "NaN or infinite"),
    ],
)
def test_a_damaged_file_is_named(elmo, tmp_path, damage, message):
    change(write(elmo, tmp_path), "model.safetensors", damage)
    with pytest.raises(WeightError, match=message):
        Elmo.from_pretrained(tmp_path)


def test_a_softmax_that_does_not_fit_is_named(elmo, tmp_path):
    write(elmo, tmp_path)
    change(tmp_path, "lm_head.safetensors", lambda t: t.update(bias=torch.zeros(5)))
    found = Elmo.from_pretrained(tmp_path, device="cpu")
    assert found.embed(SENTENCES)  # needs no softmax
    with pytest.raises(WeightError, match=r"'bias' has the shape \(5,\), expected \(8,\)"):
        _ = found.lm


@pytest.mark.parametrize(
    ("storage", "message"),
    [("int4", "storage is 'int4', this relmo reads float32 and int8"), ("float32", ".scale'")],
)
def test_another_storage_is_never_misread(elmo, tmp_path, storage, message):
    write(elmo, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config.pop("seal")
    (tmp_path / "config.json").write_text(json.dumps({**config, "storage": storage}))
    with pytest.raises(WeightError, match=message):
        Elmo.from_pretrained(tmp_path)
