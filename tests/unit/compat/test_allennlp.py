"""The old interface: shapes, refusals, files. Numbers are in tests/parity/test_golden.py."""

import io
import json

import h5py
import numpy as np
import pytest
import torch

from relmo.compat.allennlp import CarriedState, Elmo, ElmoEmbedder, batch_to_ids
from relmo.config import LstmConfig
from relmo.errors import ConfigError, OutputError, TextError
from relmo.nn.bilm import map_state
from tests.support.official import write_official

SENTENCES = [["The", "bank", "of", "the", "river"], ["Bank"]]


@pytest.fixture
def files(official):
    return official / "options.json", official / "weights.hdf5"


def test_ids_are_padded_with_zero():
    ids = batch_to_ids(SENTENCES)
    assert ids.shape == (2, 5, 50)
    assert ids.dtype == torch.int64
    assert ids[1, 0, :3].tolist() == [259, 67, 98]
    assert not ids[1, 1:].any()


@pytest.mark.parametrize("batch", [[], [[]], [[], []], [[], ["a"]]])
def test_empty_sentences_are_no_error(files, batch):
    output = Elmo(*files, 1).eval()(batch_to_ids(batch))
    longest = max((len(sentence) for sentence in batch), default=0)
    assert output["elmo_representations"][0].shape == (len(batch), longest, 16)
    assert output["mask"].sum().item() == sum(map(len, batch))


def test_the_module_is_in_training_mode_with_dropout_as_theirs(files):
    elmo = Elmo(*files, 1)
    assert elmo.training
    assert (elmo(batch_to_ids(SENTENCES))["elmo_representations"][0][0] == 0).any()
    assert elmo.get_output_dim() == 16


def test_the_same_sentence_twice_is_the_same_unless_stateful(files):
    ids = batch_to_ids(SENTENCES)
    for stateful in (False, True):
        elmo = Elmo(*files, 1, stateful=stateful).eval()
        first, again = (elmo(ids)["elmo_representations"][0] for _ in range(2))
        assert torch.equal(first, again) is not stateful


def test_only_what_is_asked_for_is_trained(files):
    frozen, tuned = Elmo(*files, 2), Elmo(*files, 1, requires_grad=True, dropout=0.0)
    assert sum(p.requires_grad for p in frozen.parameters()) == 4
    tuned(batch_to_ids(SENTENCES))["elmo_representations"][0].sum().backward()
    assert all(p.grad is not None for p in tuned.parameters())
    fixed = Elmo(*files, 1, scalar_mix_parameters=[0.0, 1.0, 2.0])
    assert not any(p.requires_grad for p in fixed.parameters())


def test_a_fourth_dimension_comes_back(files):
    ids = torch.stack([batch_to_ids(SENTENCES)] * 3)
    output = Elmo(*files, 1, keep_sentence_boundaries=False).eval()(ids)
    assert output["elmo_representations"][0].shape == (3, 2, 5, 16)
    assert output["mask"].shape == (3, 2, 5)


def test_a_module_of_ones_own(files):
    class Module(torch.nn.Module):
        num_layers = 2

        def get_output_dim(self):
            return 4

        def forward(self, inputs, word_inputs):
            B, T, _ = inputs.shape
            activations = [torch.ones(B, T + 2, 4), 3 * torch.ones(B, T + 2, 4)]
            return {"activations": activations, "mask": torch.ones(B, T + 2, dtype=torch.bool)}

    elmo = Elmo(None, None, 1, module=Module()).eval()
    found = elmo(batch_to_ids(SENTENCES))["elmo_representations"][0]
    assert found.eq(2).all()
    assert found.shape == (2, 5, 4)
    elmo.reset_states()
    with pytest.raises(ConfigError, match="not both"):
        Elmo(*files, 1, module=Module())


def test_models_and_ids_that_do_not_fit_are_refused_with_a_reason(tmp_path, files):
    other = write_official(tmp_path / "short", max_characters=12)
    with pytest.raises(ConfigError, match="50 character ids per word"):
        Elmo(other / "options.json", other / "weights.hdf5", 1)
    with pytest.raises(TextError, match="expected ids of shape .* use batch_to_ids"):
        Elmo(*files, 1)(batch_to_ids(SENTENCES)[..., :30])


def test_word_ids_without_a_cache_are_warned_about(files, caplog):
    Elmo(*files, 1).eval()(batch_to_ids(SENTENCES), torch.zeros(2, 5, dtype=torch.long))
    assert "no vocab_to_cache" in caplog.text


def test_a_cache_and_finetuning_are_warned_about(files, caplog):
    Elmo(*files, 1, requires_grad=True, vocab_to_cache=["<pad>", "a"])
    assert "cached word vectors are not updated" in caplog.text


@pytest.mark.parametrize("given", [None, "https://host/options.json", "s3://bucket/options.json"])
def test_addresses_are_refused_with_a_reason(files, given):
    with pytest.raises(ConfigError, match="relmo downloads nothing"):
        Elmo(given, files[1], 1)
    with pytest.raises(ConfigError, match="relmo downloads nothing"):
        ElmoEmbedder(given, files[1])


@pytest.fixture
def embedder(files):
    return ElmoEmbedder(*files)


def test_embedder_shapes(embedder):
    assert embedder.embed_sentence(SENTENCES[0]).shape == (3, 5, 16)
    assert embedder.embed_sentence([]).shape == (3, 0, 16)
    assert [a.shape[1] for a in embedder.embed_batch(SENTENCES)] == [5, 1]
    layers, mask = embedder.batch_to_embeddings(SENTENCES)
    assert layers.shape == (2, 3, 5, 16)
    assert mask.tolist() == [[True] * 5, [True] + [False] * 4]
    stream = embedder.embed_sentences(iter(SENTENCES * 3), batch_size=4)
    assert [a.shape[1] for a in stream] == [5, 1] * 3


@pytest.mark.parametrize(
    ("output_format", "shape"), [("all", (3, 5, 16)), ("top", (5, 16)), ("average", (5, 16))]
)
def test_embed_file_writes_line_numbers_and_the_index(embedder, tmp_path, output_format, shape):
    text = io.StringIO("The bank of the river\n\nBank\n")
    embedder.embed_file(text, tmp_path / "o.h5", output_format)
    with h5py.File(tmp_path / "o.h5") as file:
        assert file["0"].shape == shape
        assert file["1"].shape[-2] == 0
        assert json.loads(file["sentence_to_index"][0])["Bank"] == "2"
        found = file["2"][...]
    bank = embedder.embed_sentence(["Bank"])
    wanted = {"all": bank, "top": bank[-1], "average": bank.mean(0)}[output_format]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


def test_embed_file_with_sentences_as_keys(embedder, tmp_path):
    embedder.embed_file(io.StringIO("a b\nc\n"), tmp_path / "o.h5", use_sentence_keys=True)
    with h5py.File(tmp_path / "o.h5") as file:
        assert set(file) == {"a b", "c"}
    for text, problem in (
        ("a/b\n", "contains '/'"),
        ("a\na\n", "occurs twice"),
        ("\n", "is empty"),
    ):
        with pytest.raises(OutputError, match=problem):
            embedder.embed_file(io.StringIO(text), tmp_path / "x.h5", use_sentence_keys=True)
    assert not (tmp_path / "x.h5").exists()


def test_embed_file_can_forget_sentences_and_refuses_other_formats(embedder, tmp_path):
    embedder.embed_file(io.StringIO("a\n"), tmp_path / "o.h5", forget_sentences=True)
    with h5py.File(tmp_path / "o.h5") as file:
        assert set(file) == {"0"}
    with pytest.raises(ConfigError, match="choose all, top or average"):
        embedder.embed_file(io.StringIO("a\n"), tmp_path / "o.h5", "mean")


def test_a_stateful_embedder_can_be_reset(files):
    embedder = ElmoEmbedder(*files, stateful=True)
    first, second = (embedder.embed_sentence(SENTENCES[0]) for _ in range(2))
    embedder.reset_states()
    third = embedder.embed_sentence(SENTENCES[0])
    assert not np.array_equal(first, second)
    assert np.array_equal(first, third)


# --- carried state

LSTM = LstmConfig(num_layers=2, cell_width=4, output_width=3)
LIKE = torch.zeros(1)


def rows_of(state) -> list[float]:
    """The value of each row, which must be the same in all tensors and layers."""
    parts = state.forward.h, state.forward.c, state.backward.h, state.backward.c
    assert [part.shape[2] for part in parts] == [3, 4, 3, 4]
    assert all(torch.equal(part[:1, :, :1].expand_as(part), part) for part in parts)
    return state.forward.h[0, :, 0].tolist()


def filled(carried, values):
    """The state of a batch that ended with one value per row."""
    before = carried.before(LSTM, len(values), LIKE)
    return map_state(lambda part: torch.zeros_like(part) + torch.tensor(values)[:, None], before)


def test_a_carried_state_starts_from_zero():
    assert rows_of(CarriedState().before(LSTM, 2, LIKE)) == [0, 0]


def test_a_smaller_batch_updates_its_own_rows_and_a_larger_one_adds_zero_rows():
    carried = CarriedState()
    carried.after(filled(carried, [1.0, 2.0, 3.0]))
    assert rows_of(carried.before(LSTM, 2, LIKE)) == [1, 2]
    carried.after(filled(carried, [7.0]))
    assert rows_of(carried.before(LSTM, 5, LIKE)) == [7, 2, 3, 0, 0]
    carried.reset()
    assert rows_of(carried.before(LSTM, 1, LIKE)) == [0]


def test_no_gradient_flows_from_call_to_call():
    carried = CarriedState()
    carried.after(map_state(lambda part: part.requires_grad_(), filled(carried, [1.0])))
    assert not carried.before(LSTM, 1, LIKE).forward.h.requires_grad
