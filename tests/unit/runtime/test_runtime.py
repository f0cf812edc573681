"""What reads where nothing is trained: equal to the plain biLM, alone as in a batch."""

import copy
import pickle

import numpy as np
import pytest
import torch

from relmo import Elmo
from relmo.config import LstmConfig
from relmo.errors import ConfigError
from relmo.kernels.cpu_products import has_bfloat16
from relmo.nn.bilm import map_state, read_sentences
from relmo.runtime.engines import CpuEngine
from relmo.runtime.runtime import unpack_layers
from tests.conftest import tiny_config

PRECISIONS = ("float32", "bfloat16", "int8")
TEXT = [
    [
        "The",
        "bank",
        "raised",
        "interest",
        "rates",
        "again",
        ",",
        "and",
        "nobody",
        "was",
        "surprised",
        ".",
    ],
    ["They", "walked", "along", "the", "bank", "of", "the", "river", "."],
    ["Hi"],
    [],
    [
        "A",
        "much",
        "longer",
        "sentence",
        "with",
        "many",
        "words",
        "goes",
        "on",
        "and",
        "on",
        "until",
        ",",
        "at",
        "last",
        ",",
        "it",
        "ends",
        ".",
    ],
]


SIZES = {"cell_width": 12, "output_width": 8}
VARIANTS = {
    "plain": LstmConfig(num_layers=2, **SIZES, cell_clip=None, output_clip=None),
    "clips": LstmConfig(num_layers=2, **SIZES, cell_clip=0.1, output_clip=0.05),
    "one layer": LstmConfig(num_layers=1, **SIZES),
    "no skips": LstmConfig(num_layers=3, **SIZES, has_skips=False),
    "no projection": LstmConfig(num_layers=2, cell_width=8, output_width=8, has_projection=False),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_engine_reads_as_the_plain_bilm_does(name):
    lstm = VARIANTS[name]
    bilm = Elmo.untrained(tiny_config(lstm=lstm), seed=2).bilm
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([3, 9, 2, 9, 5, 0])
    x = torch.randn(6, 9, lstm.output_width, generator=generator)
    engine = CpuEngine(bilm, "float32")
    begin = map_state(
        lambda part: 0.1 * torch.randn(part.shape, generator=generator), bilm.start_state(6)
    )
    for state in (None, begin):
        found, after = read_sentences(engine, x, lengths, bilm.begin(state, 6))
        wanted, wanted_after = bilm.read(x, lengths, state)
        torch.testing.assert_close(found.values, wanted.values, atol=1e-6, rtol=1e-5)
        assert torch.equal(found.mask, wanted.mask)
        for one, two in (
            (after.forward, wanted_after.forward),
            (after.backward, wanted_after.backward),
        ):
            torch.testing.assert_close(one.h, two.h, atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(one.c, two.c, atol=1e-6, rtol=1e-5)


def test_an_empty_batch_is_read():
    bilm = Elmo.untrained(tiny_config()).bilm
    x, lengths = torch.zeros(0, 0, 8), torch.zeros(0, dtype=torch.long)
    found, _ = read_sentences(CpuEngine(bilm, "float32"), x, lengths, bilm.start_state(0))
    assert found.values.shape == (3, 0, 0, 16)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_neighbours_change_nothing(precision):
    elmo = Elmo.from_pretrained("relmo-en-small", precision=precision, device="cpu")
    together = elmo.embed(TEXT)
    again = elmo.embed(TEXT[::-1])[::-1]
    alone = [elmo.embed([sentence])[0] for sentence in TEXT]
    for one, two, three in zip(together, again, alone, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)
        np.testing.assert_allclose(one, three, atol=1e-5)


@pytest.mark.parametrize(("precision", "least"), [("bfloat16", 0.9995), ("int8", 0.999)])
def test_a_faster_precision_points_the_same_way(precision, least):
    exact = Elmo.from_pretrained("relmo-en-small", device="cpu")
    rough = Elmo.from_pretrained("relmo-en-small", precision=precision, device="cpu")
    a, b = (np.concatenate(elmo.embed(TEXT), 1).astype(np.float64) for elmo in (exact, rough))
    cosines = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)  # (3, T)
    assert (cosines.mean(1) > least).all()
    np.testing.assert_array_equal(a[0], b[0])  # the token layer is exact in every precision


def test_the_precision_is_reported_and_part_of_the_fingerprint():
    elmo = Elmo.from_pretrained("relmo-en-small", precision="int8", device="cpu")
    assert elmo.precision == "int8"
    assert "in int8" in repr(elmo)
    exact = Elmo.from_pretrained("relmo-en-small", device="cpu")
    assert elmo.fingerprint() != exact.fingerprint()


def test_auto_takes_what_the_machine_has():
    elmo = Elmo.from_pretrained("relmo-en-small", precision="auto", device="cpu")
    assert elmo.precision == ("bfloat16" if has_bfloat16() else "float32")


def test_a_precision_that_there_is_not_is_refused(tiny):
    with pytest.raises(ConfigError, match="unknown precision 'int4'; choose float32"):
        tiny.runtime.fast.use_precision("int4")


def test_weights_that_change_are_noticed():
    elmo = Elmo.untrained(tiny_config(), seed=1)
    before = elmo.embed(TEXT)[0]
    with torch.no_grad():
        elmo.bilm.forward_lstm.layers[0].recurrent_weight.mul_(1.5)
    after = elmo.embed(TEXT)[0]
    assert np.abs(before[1] - after[1]).max() > 1e-4
    wanted = Elmo.untrained(tiny_config(), seed=1)
    wanted.bilm.load_state_dict(elmo.bilm.state_dict())
    np.testing.assert_allclose(after, wanted.embed(TEXT)[0], atol=1e-6)


def test_weights_in_training_go_the_plain_way_and_get_gradients():
    elmo = Elmo.untrained(tiny_config(), seed=1)
    elmo.embed(TEXT)  # an engine is there
    elmo.bilm.requires_grad_(True)
    batch = elmo.runtime.batch(TEXT)
    layers, _ = elmo.runtime.fast.read(
        elmo.bilm.token_layer(batch.words)[batch.index], batch.lengths
    )
    layers.values.sum().backward()
    assert elmo.bilm.forward_lstm.layers[0].recurrent_weight.grad is not None


def test_the_engine_can_be_switched_off(monkeypatch):
    elmo = Elmo.untrained(tiny_config(), seed=1)
    fast = elmo.embed(TEXT)
    monkeypatch.setenv("RELMO_KERNELS", "reference")
    monkeypatch.setattr(CpuEngine, "read_packed", None)
    for one, two in zip(elmo.embed(TEXT), fast, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.parametrize("make", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo))])
def test_copies_read_the_same(make):
    elmo = Elmo.untrained(tiny_config(), seed=1)
    before = elmo.embed(TEXT)
    for one, two in zip(make(elmo).embed(TEXT), before, strict=True):
        np.testing.assert_array_equal(one, two)


def test_threads_of_the_caller_stay_as_they_are():
    elmo, threads = Elmo.untrained(tiny_config(), seed=1), torch.get_num_threads()
    wanted = elmo.embed(TEXT)
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            for one, two in zip(elmo.embed(TEXT), wanted, strict=True):
                np.testing.assert_allclose(one, two, atol=1e-6)
            assert torch.get_num_threads() == number
    finally:
        torch.set_num_threads(threads)


def test_a_model_of_another_dtype_goes_the_plain_way():
    elmo = Elmo.untrained(tiny_config(), seed=1)
    wanted = elmo.embed(TEXT)
    elmo.bilm.double()
    for one, two in zip(elmo.embed(TEXT), wanted, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_values_beyond_float16_are_refused_and_not_infinite():
    values = torch.zeros(3, 1, 4, 2)
    values[:, :, 0] = 1e6  # the boundary, which nobody gets
    assert not np.isinf(unpack_layers(values, [["a", "b"]], "float16")[0]).any()
    values[0, 0, 2, 1] = -7e4
    assert unpack_layers(values, [["a", "b"]])[0].min() == -7e4
    with pytest.raises(ConfigError, match="beyond ±65,504, the range of float16; ask for float32"):
        unpack_layers(values, [["a", "b"]], "float16")
