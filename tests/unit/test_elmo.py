"""Text in, contextual vectors out."""

import numpy as np
import pytest
import torch

from relmo import Elmo, ElmoConfig, LstmConfig
from relmo.errors import ConfigError, TextError, TextWarning
from tests.conftest import tiny_config

SENTENCES = [["The", "bank", "of", "the", "river"], ["Bank", "account"]]


def test_tokens_in_are_tokens_out(tiny):
    layers = tiny.embed([*SENTENCES, []])
    assert [array.shape for array in layers] == [(3, 5, 16), (3, 2, 16), (3, 0, 16)]
    assert all(array.dtype == np.float32 for array in layers)


def test_a_word_has_another_vector_in_another_context(tiny):
    river, account = tiny.embed([["river", "bank"], ["my", "bank"]])
    np.testing.assert_array_equal(river[0, 1], account[0, 1])
    assert not np.allclose(river[1, 1, :8], account[1, 1, :8])


def test_strings_are_split_by_the_models_tokenizer(tiny):
    text = "The bank's rates, he said."
    words = [token.text for token in tiny.tokens(text)]
    assert words == ["The", "bank", "'s", "rates", ",", "he", "said", "."]
    np.testing.assert_array_equal(tiny.embed([text])[0], tiny.embed([words])[0])
    assert all(text[t.start : t.end] == t.text for t in tiny.tokens(text))


def test_layers_can_be_chosen(tiny):
    full = tiny.embed(SENTENCES)
    for choice, wanted in [(0, full[0][0]), (2, full[0][2]), ("top", full[0][2])]:
        np.testing.assert_array_equal(tiny.embed(SENTENCES, layers=choice)[0], wanted)
    np.testing.assert_allclose(
        tiny.embed(SENTENCES, layers="mean")[0], full[0].mean(0), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("choice", [3, -1, "last", 1.5])
def test_a_layer_that_is_not_there_is_named(tiny, choice):
    with pytest.raises(ConfigError, match="unknown layers .* or a number from 0 to 2"):
        tiny.embed(SENTENCES, layers=choice)


def test_the_same_call_gives_the_same_bits(tiny):
    first, again = tiny.embed(SENTENCES), tiny.embed(SENTENCES)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_no_sentences_give_no_vectors(tiny):
    assert tiny.embed([]) == []
    assert tiny.encode([]).shape == (0, 16)


def test_one_string_instead_of_a_list_is_an_error(tiny):
    from relmo import ElmoLayer

    for call in (tiny.embed, tiny.embed_stream, tiny.read, ElmoLayer(tiny)):
        with pytest.raises(TextError, match=r"expected a list .*, got a string; pass \[text\]"):
            call("The bank")


@pytest.mark.parametrize("bad", [[None], [3], [b"bytes"], [{"a": 1}]])
def test_a_sentence_that_is_none_is_named(tiny, bad):
    with pytest.raises(TextError, match="sentence 0 is a .*; expected a string or a list"):
        tiny.embed(bad)


@pytest.mark.parametrize("token", [" ", "a ", " a", "a\tb"])
def test_any_space_in_a_token_is_warned_about(tiny, token):
    with pytest.warns(TextWarning, match="contains a space"):
        assert tiny.embed([[token, "b"]])[0].shape == (3, 2, 16)


def test_numpy_numbers_name_layers_too(tiny):
    np.testing.assert_array_equal(
        tiny.embed(SENTENCES, layers=np.int64(1))[0], tiny.embed(SENTENCES, layers=1)[0]
    )


def test_a_sequence_beyond_memory_is_named(tiny, monkeypatch):
    def fails(*_):
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate"
        )

    monkeypatch.setattr(tiny.runtime, "layers", fails)
    with pytest.raises(TextError, match="a sequence of 5 tokens does not fit into memory"):
        tiny.embed(SENTENCES)


def test_a_batch_beyond_memory_is_read_in_parts(tiny, monkeypatch):
    wanted, layers, sizes = tiny.embed(SENTENCES), tiny.runtime.layers, []

    def fails_for_many(words, *rest):
        sizes.append(len(words))
        if len(words) > 1:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return layers(words, *rest)

    monkeypatch.setattr(tiny.runtime, "layers", fails_for_many)
    for one, two in zip(tiny.embed(SENTENCES), wanted, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
    assert sizes.count(1) == len(SENTENCES)


def test_a_warning_points_at_the_caller(tiny):
    with pytest.warns(TextWarning) as found:
        tiny.embed([["one two"]])
    assert found[0].filename == __file__


def test_one_layer_is_not_a_view_of_all(tiny):
    assert tiny.embed(SENTENCES, layers="top")[0].base is None


def test_no_graph_is_built_around_a_frozen_model(tiny):
    layers, _ = tiny.runtime.layers(SENTENCES)
    assert not layers.values.requires_grad
    assert not any(p.requires_grad for p in tiny.bilm.parameters())


def test_a_model_can_be_copied(tiny):
    from copy import deepcopy

    copy = deepcopy(tiny)
    np.testing.assert_array_equal(copy.embed(SENTENCES)[0], tiny.embed(SENTENCES)[0])
    assert copy.runtime.memo.layer is copy.bilm.token_layer is not tiny.bilm.token_layer


@pytest.mark.parametrize("empty", [[], [[]], [[], []]])
def test_empty_batches_are_read(tiny, empty):
    from relmo import ElmoLayer

    vectors, _ = tiny.read(empty)
    assert [v.shape for v in vectors] == [(3, 0, 16)] * len(empty)
    mixed, mask = ElmoLayer(tiny).eval()(empty)
    assert mixed[0].shape == (len(empty), 0, 16)
    assert mask.shape == (len(empty), 0)


def test_a_state_of_other_rows_is_refused(tiny):
    _, state = tiny.read(SENTENCES)
    with pytest.raises(ConfigError, match="for 1 sentences, got"):
        tiny.read(SENTENCES[:1], state)


def test_a_start_that_the_model_does_not_have_is_refused(tiny, tmp_path):
    tiny.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="unknown start 'stored'; choose zero"):
        Elmo.from_pretrained(tmp_path, start="stored")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"layer": "all"}, "unknown layers 'all'; choose 'mean', 'top', 'bottom'"),
        ({"pooling": "sum"}, "unknown pooling 'sum'"),
    ],
)
def test_encode_checks_its_choices_first(tiny, choice, message):
    with pytest.raises(ConfigError, match=message):
        tiny.encode([], **choice)


@pytest.mark.parametrize("bad", [[["a", 3]], [["a", None]], [["a", b"b"]]])
def test_a_token_that_is_no_string_is_named(tiny, bad):
    with pytest.raises(TextError, match="sentence 0, token 1 is"):
        tiny.embed(bad)


def test_a_token_with_a_space_is_warned_about_and_embedded(tiny):
    with pytest.warns(TextWarning, match="sentence 0: 'one two' contains a space"):
        layers = tiny.embed([["one two"]])
    assert layers[0].shape == (3, 1, 16)


def test_state_is_an_argument(tiny):
    first, state = tiny.read(SENTENCES)
    again, _ = tiny.read(SENTENCES)
    carried, _ = tiny.read(SENTENCES, state)
    np.testing.assert_array_equal(first[0], again[0])
    assert not np.allclose(first[0], carried[0])


def test_a_stream_is_lazy_and_in_order(tiny):
    taken = []

    def sentences():
        for i in range(20_000):
            taken.append(i)
            yield [f"w{i % 50}"] * (i % 7)

    stream = tiny.embed_stream(sentences(), layers="top")
    first = next(stream)
    assert first.shape == (0, 16)
    assert len(taken) < 10_000
    lengths = [next(stream).shape[0] for _ in range(20)]
    assert lengths == [(i + 1) % 7 for i in range(20)]


def test_encode_pools_all_tokens_of_a_text(tiny):
    text = "The bank raised rates. We sat on the bank."
    parts = tiny.embed(["The bank raised rates.", "We sat on the bank."], layers="mean")
    wanted = np.concatenate(parts).mean(0)
    np.testing.assert_allclose(tiny.encode([text])[0], wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layer", ["mean", "top", 0, 1, 2])
@pytest.mark.parametrize("pooling", ["mean", "max", "first", "last"])
def test_encode_gives_a_vector_per_text(tiny, layer, pooling):
    texts = ["The bank.", "", "   ", "One. Two. Three."]
    found = tiny.encode(texts, layer=layer, pooling=pooling)
    assert found.shape == (4, 16)
    assert found.dtype == np.float32
    assert not found[1:3].any()
    alone = np.stack([tiny.encode(text, layer=layer, pooling=pooling) for text in texts])
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-5)


def test_encode_follows_the_habits_of_sentence_encoders(tiny):
    texts = ["The bank raised rates.", "We sat on the bank."]
    assert tiny.encode(texts[0]).shape == (16,)
    tensor = tiny.encode(texts, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor)
    unit = tiny.encode(texts, normalize_embeddings=True, batch_size=1, show_progress_bar=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)


def test_encode_takes_strings_only(tiny):
    with pytest.raises(TextError, match="expected strings, got list as text 1"):
        tiny.encode(["a", ["b"]])


def test_words_past_the_character_limit_are_known(tiny):
    assert tiny.runtime.is_cut("x" * 49)
    assert not tiny.runtime.is_cut("x" * 48)


def test_a_code_point_model_embeds_long_korean_words():
    from relmo import CharCnnConfig

    cnn = CharCnnConfig(
        width=8,
        character_width=4,
        filters=((1, 4), (3, 8)),
        scheme="code_points",
        alphabet="가나다",
    )
    elmo = Elmo.untrained(tiny_config(tokens=cnn))
    word = "가나다" * 10
    assert not elmo.runtime.is_cut(word)
    one, other = elmo.embed([[word], [word[:-1] + "가"]], layers=0)
    assert not np.array_equal(one, other)


def test_an_untrained_model_says_so():
    elmo = Elmo.from_pretrained("relmo-untrained", device="cpu")
    assert "random weights" in repr(elmo)
    assert elmo.embed(SENTENCES)[0].shape == (3, 5, 256)


def test_a_precision_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="unknown precision 'int4'; choose float32"):
        Elmo.from_pretrained("relmo-untrained", precision="int4")


def test_a_word_table_needs_a_word_list():
    from relmo import WordTableConfig
    from relmo.nn.bilm import BiLM

    config = tiny_config(tokens=WordTableConfig(width=8, num_words=3))
    with pytest.raises(ConfigError, match="needs its word list"):
        Elmo(BiLM(config))


def test_models_of_equal_weights_have_equal_fingerprints():
    one, two, other = (Elmo.untrained(tiny_config(), seed) for seed in (1, 1, 2))
    assert one.fingerprint() == two.fingerprint() != other.fingerprint()
    renamed = Elmo.untrained(tiny_config(name="x", training={"a": 1}), 1)
    assert renamed.fingerprint() == one.fingerprint()
    for change in (
        {"tokenizer": "whitespace"},
        {"lstm": LstmConfig(cell_width=24, output_width=8, cell_clip=1.0)},
    ):
        assert Elmo.untrained(tiny_config(**change), 1).fingerprint() != one.fingerprint()


def test_a_word_table_of_other_words_is_another_model():
    from relmo import WordTableConfig
    from relmo.nn.bilm import BiLM, initialize
    from relmo.text.lexicon import Lexicon

    bilm = initialize(BiLM(tiny_config(tokens=WordTableConfig(width=8, num_words=5))), 0)
    special = ["<S>", "</S>", "<UNK>"]
    one, two, other = (
        Elmo(bilm, Lexicon(special + words)).fingerprint()
        for words in (["cat", "dog"], ["cat", "dog"], ["dog", "cat"])
    )
    assert one == two != other


def test_the_default_shapes_are_the_papers():
    config = ElmoConfig()
    assert (config.num_layers, config.width, config.lstm.cell_width) == (3, 1024, 4096)
    assert config.tokens.num_filters == 2048


# ── comparing ───────────────────────────────────────────────────────────────────────────────────


def test_similarity_of_two_texts_is_the_cosine_of_their_vectors(tiny):
    one, other = tiny.encode(["The bank.", "A river ran."], normalize_embeddings=True)
    found = tiny.similarity("The bank.", "A river ran.")
    assert isinstance(found, float)
    assert found == pytest.approx(float(one @ other), abs=1e-5)
    assert tiny.similarity("", "The bank.") == 0.0


def test_similarity_has_an_axis_for_each_list(tiny):
    many, more = ["a", "b c", ""], ["d", "e"]
    found = tiny.similarity(many, more)
    assert found.shape == (3, 2)
    assert tiny.similarity(many, "d").shape == (3,)
    assert tiny.similarity("a", more).shape == (2,)
    assert tiny.similarity([], more).shape == (0, 2)
    np.testing.assert_allclose(tiny.similarity("a", more), found[0], atol=1e-5)


def test_similarity_takes_vectors_and_the_options_of_encode(tiny):
    texts = ["The bank.", "A river ran."]
    wanted = tiny.similarity(texts, texts, layers=2, pooling="max")
    vectors = tiny.encode(texts, layers=2, pooling="max")
    tensors = tiny.encode(texts, layers=2, pooling="max", convert_to_tensor=True)
    for given in (vectors, list(vectors), tensors, iter(vectors)):
        np.testing.assert_allclose(tiny.similarity(given, vectors), wanted, atol=1e-5)
    assert np.diag(wanted) == pytest.approx([1, 1], abs=1e-5)


@pytest.mark.parametrize("given", [[[1.0, 2.0], [3.0]], np.zeros((1, 2, 3)), [object()]])
def test_similarity_of_anything_else_says_what_it_takes(tiny, given):
    with pytest.raises(ConfigError, match="expected texts, or vectors of shape"):
        tiny.similarity(given, "a")


def test_similarity_of_vectors_of_another_width_is_an_error(tiny):
    with pytest.raises(ConfigError, match="vectors of one width, got 3 and 16"):
        tiny.similarity(np.ones(3), "a")


def test_compare_finds_the_word_and_compares_its_sense_vectors(tiny):
    sentences = ["He owes the bank money.", "none", "Bank or bank?", ["the", "bank"]]
    found = tiny.compare("bank", sentences)
    assert [(p.sentence, p.position) for p in found.places] == [(0, 3), (2, 2), (3, 1)]
    assert found.without == (1,)
    senses = tiny.sense_vectors(sentences)
    rows = np.stack([senses[p.sentence][p.position] for p in found.places])
    np.testing.assert_allclose(found.cosines, rows @ rows.T, atol=1e-5)


def test_compare_takes_a_layer(tiny):
    sentences = ["the bank of a river", "a bank account"]
    assert tiny.compare("bank", sentences, layers=0).cosines == pytest.approx(1, abs=1e-5)
    found = tiny.compare("bank", sentences, layers="top")
    assert found.compared_by == "the top layer"
    one, other = (v[1] for v in tiny.embed(sentences, layers="top"))
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert found.cosines[0, 1] == pytest.approx(cosine, abs=1e-5)
    with pytest.raises(ConfigError, match="unknown layers"):
        tiny.compare("bank", sentences, layers="all")


def test_compare_says_when_the_word_is_nowhere(tiny):
    with pytest.raises(TextError, match="'zebra' is in none of the 2 sentences"):
        tiny.compare("zebra", ["a", "b"])
    with pytest.raises(TextError, match="expected a list of sentences, got a string"):
        tiny.compare("bank", "a bank")
    with pytest.raises(TextError, match="expected a word, got list"):
        tiny.compare(["bank"], ["a bank"])
    with pytest.raises(TextError, match=r"swapped; write compare\(word, sentences\)"):
        tiny.compare(["a bank"], "bank")
    with pytest.raises(TextError, match=r"swapped; write compare\(word, sentences\)"):
        tiny.compare("a bank", "bank")


# ── what is no text ─────────────────────────────────────────────────────────────────────────────


class Table:
    """Like a data frame: iterating gives its column names."""

    columns = ("text", "label")

    def __iter__(self):
        return iter(self.columns)


NOT_A_LIST = [
    (Table(), r"got Table; select a column, for example df\['text'\]"),
    ({"text": ["a"]}, r"got dict; pass list\(d.values\(\)\)"),
    (b"bytes", "got bytes; decode it"),
    ({"a", "b"}, "got set; pass a list"),
    (None, "got NoneType; pass a list"),
    (3.5, "got float; pass a list"),
    (np.array("text"), "got ndarray; pass a list"),
]


@pytest.mark.parametrize(("given", "message"), NOT_A_LIST)
def test_what_is_no_list_of_texts_says_what_to_pass(tiny, given, message):
    for call in (tiny.encode, tiny.embed, tiny.embed_stream, tiny.sense_vectors, tiny.read):
        with pytest.raises(TextError, match=message):
            call(given)
    with pytest.raises(TextError, match=message):
        tiny.similarity(given, "a")


class Column(list):
    """Like a column of pandas."""

    def dropna(self):
        """The values that there are."""


class NAType:
    """Like pandas' own missing value."""


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, NAType()])
def test_a_missing_value_is_named_with_its_row(tiny, missing):
    column = ["a", "b", missing, "c", missing]
    with pytest.raises(
        TextError, match=r"row 2 .* missing value .* 2 of 5 texts are missing; drop them"
    ):
        tiny.encode(column)
    with pytest.raises(TextError, match="texts are missing; drop them or replace them by ''$"):
        tiny.encode(column)
    with pytest.raises(TextError, match=r"drop them \(texts.dropna\(\)\) or fill them \(texts.f"):
        tiny.encode(Column(column))
    with pytest.raises(TextError, match="sentence 2 is a .*; drop missing values"):
        tiny.embed(column)


def test_a_table_among_sentences_is_named(tiny):
    with pytest.raises(TextError, match="sentence 1 is a Table; expected a string"):
        tiny.embed(["a", Table()])


def test_the_name_of_a_model_is_loaded_by_from_pretrained(tiny):
    with pytest.raises(ConfigError, match="got 'relmo-en-small'; .* use Elmo.from_pretrained"):
        Elmo("relmo-en-small")
    from relmo import ElmoLayer

    with pytest.raises(ConfigError, match="ElmoLayer expects an Elmo, got 'relmo-en-small'"):
        ElmoLayer("relmo-en-small")


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "hpu", 3.5])
def test_a_device_that_is_not_there_says_which_are(tiny, device):
    with pytest.raises(ConfigError, match=f"device '{device}' is not available; torch finds cpu"):
        tiny.to(device)
    assert tiny.device.type == "cpu"


def test_a_gpu_is_named_cuda(tiny):
    with pytest.raises(ConfigError, match="the name of an NVIDIA GPU is 'cuda'"):
        tiny.to("gpu")


def test_loading_to_a_gpu_without_one_says_what_a_gpu_needs():
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ConfigError, match=r"device 'cuda' .*nvidia-smi.* torch built with CUDA"):
        Elmo.from_pretrained("relmo-en-small", device="cuda")


@pytest.mark.parametrize(
    ("value", "advice"), [(b"x", "decode it"), (1, "str"), (["x"], "for token lists use embed")]
)
def test_what_is_no_text_is_told_how_to_become_one(tiny, value, advice):
    with pytest.raises(TextError, match=f"expected strings, got .* as text 1; .*{advice}"):
        tiny.encode(["fine", value])
