"""The engine on a CPU: the plain biLM's layers, whatever the precision, threads or processes.

`tests/unit/test_reader.py` holds what a user sees of it; here is what could go wrong inside.
"""

import copy
import functools
import multiprocessing
import pickle
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from relmo import Elmo, ElmoConfig, LstmConfig
from relmo.errors import ConfigError
from relmo.kernels import cpu_products
from relmo.nn.bilm import BiLM, initialize, map_state, read_sentences
from relmo.runtime import runtime
from relmo.runtime.engines import CpuEngine
from relmo.types import BiLmState, Layers, Vectors
from tests.conftest import tiny_config

ATOL = 1e-5
SENSES = Path(__file__).parents[3] / "experiments" / "senses.toml"
TEXT = [
    ["The", "bank", "raised", "interest", "rates", "again", "."],
    ["Hi"],
    [],
    ["They", "walked", "along", "the", "bank", "of", "the", "river", "."],
]
SIZES = {"cell_width": 24, "output_width": 8}
VARIANTS: dict[str, ElmoConfig] = {
    "two layers": tiny_config(),
    "one layer": tiny_config(lstm=LstmConfig(**SIZES, num_layers=1)),
    "three layers": tiny_config(lstm=LstmConfig(**SIZES, num_layers=3)),
    "no skips": tiny_config(lstm=LstmConfig(**SIZES, num_layers=3, has_skips=False)),
    "no projection": tiny_config(
        lstm=LstmConfig(cell_width=8, output_width=8, has_projection=False)
    ),
    "no clips": tiny_config(lstm=LstmConfig(**SIZES, cell_clip=None, output_clip=None)),
    "clips": tiny_config(lstm=LstmConfig(**SIZES, cell_clip=0.3, output_clip=0.1)),
    "stored start": tiny_config(start="stored"),
}
BATCHES = {
    "mixed": [3, 9, 2, 9, 5, 1],
    "boundaries alone": [2, 2, 2],
    "one sentence": [7],
    "one token each": [1] * 40,
    "empty sentences": [0, 4, 0],
    "nothing but empty": [0, 0],
    "empty batch": [],
}
needs_bfloat16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no bfloat16 on this CPU"
)


@functools.cache
def small(precision: str) -> Elmo:
    """The bundled model; bfloat16 both as a CPU with such products has it and as one without."""
    name = "bfloat16" if precision == "rounded weights" else precision
    elmo = Elmo.from_pretrained("relmo-en-small", precision=name, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_products, "has_bfloat16", lambda: precision == "bfloat16")
        elmo.embed(TEXT)  # packs
    return elmo


def bilm_of(config: ElmoConfig) -> BiLM:
    """Weights and biases large enough for clips to fire."""
    bilm = initialize(BiLM(config), seed=2).requires_grad_(False)
    generator = torch.Generator().manual_seed(3)
    for stack in (bilm.forward_lstm, bilm.backward_lstm):
        for layer in stack.layers:
            layer.bias.normal_(generator=generator)
    for buffer in bilm.buffers():
        buffer.normal_(generator=generator)
    return bilm


def inputs_of(lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    x = 2 * torch.randn(len(lengths), max(lengths, default=0), 8, generator=generator)
    return x, torch.tensor(lengths, dtype=torch.long)


def some_state(bilm: BiLM, B: int) -> BiLmState:
    generator = torch.Generator().manual_seed(5)
    return map_state(lambda part: torch.randn(part.shape, generator=generator), bilm.start_state(B))


def assert_same_state(found: BiLmState, wanted: BiLmState) -> None:
    map_state(lambda a, b: torch.testing.assert_close(a, b, rtol=0, atol=ATOL) or a, found, wanted)


def read(
    bilm: BiLM, x: torch.Tensor, lengths: torch.Tensor, state: BiLmState | None = None
) -> tuple[Layers, BiLmState]:
    return read_sentences(CpuEngine(bilm, "float32"), x, lengths, bilm.begin(state, len(x)))


def furthest(found: list[Vectors], wanted: list[Vectors]) -> float:
    """The largest difference between two lists of vectors of the same shapes."""
    pairs = list(zip(found, wanted, strict=True))
    assert [a.shape for a, _ in pairs] == [b.shape for _, b in pairs]
    return max(float(np.abs(a - b).max(initial=0)) for a, b in pairs)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


# ── against the plain biLM ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_it_reads_as_the_plain_bilm_does(config, lengths):
    bilm, (x, counts) = bilm_of(config), inputs_of(lengths)
    for state in (None, some_state(bilm, len(lengths))):
        found, found_state = read(bilm, x, counts, state)
        wanted, wanted_state = bilm.read(x, counts, state)
        torch.testing.assert_close(found.values, wanted.values, rtol=0, atol=ATOL)
        assert torch.equal(found.mask, wanted.mask)
        assert_same_state(found_state, wanted_state)


def test_clips_fire_and_a_start_state_counts():
    """What the test above would not see if they did nothing."""
    x, lengths = inputs_of(BATCHES["mixed"])
    values, states = {}, {}
    for name in ("no clips", "clips", "two layers", "stored start"):
        found, states[name] = read(bilm_of(VARIANTS[name]), x, lengths)
        values[name] = found.values
    assert states["clips"].forward.c.abs().max().item() == pytest.approx(0.3)
    assert states["clips"].backward.h.abs().max().item() == pytest.approx(0.1)
    assert states["no clips"].forward.c.abs().max() > 0.6
    assert (values["two layers"] - values["stored start"]).abs().max() > 1e-2


def test_a_sentence_read_in_two_parts_is_the_sentence_read_at_once():
    """Forward: the state of one call is the state of the next."""
    bilm, (x, _) = bilm_of(VARIANTS["three layers"]), inputs_of([9, 9])
    whole, wanted = read(bilm, x, torch.tensor([9, 9]))
    first, state = read(bilm, x[:, :4], torch.tensor([4, 4]))
    rest, state = read(bilm, x[:, 4:], torch.tensor([5, 5]), state)
    found = torch.cat([first.values, rest.values], 2)
    torch.testing.assert_close(found[..., :8], whole.values[..., :8], rtol=0, atol=ATOL)
    torch.testing.assert_close(state.forward.c, wanted.forward.c, rtol=0, atol=ATOL)


def test_padding_is_never_looked_at():
    bilm, (x, lengths) = bilm_of(VARIANTS["two layers"]), inputs_of([3, 6])
    wanted = read(bilm, x, lengths)[0].values
    x[0, 3:] = float("nan")
    assert torch.equal(read(bilm, x, lengths)[0].values, wanted)


def test_a_state_of_other_rows_is_refused():
    bilm, (x, lengths) = bilm_of(VARIANTS["two layers"]), inputs_of([3, 6])
    with pytest.raises(ConfigError, match="for 2 sentences, got"):
        read(bilm, x, lengths, bilm.start_state(3))


# ── a sentence is its own ───────────────────────────────────────────────────────────────────


def mixed_sentences() -> list[list[str]]:
    """Twenty of 0 to 50 tokens."""
    senses = tomllib.loads(SENSES.read_text())["words"]
    words = " ".join(s for word in senses for part in word["senses"] for s in part["sentences"])
    tokens = iter(words.split())
    counts = [1, 2, 0, 5, 28, 3, 1, 12, 50, 8, 9, 1, 4, 20, 2, 6, 15, 7, 1, 10]
    return [[next(tokens) for _ in range(count)] for count in counts]


@pytest.mark.parametrize(
    ("precision", "number"),
    [
        ("float32", 1),
        ("float32", 2),
        ("int8", 2),
        ("rounded weights", 1),
        pytest.param("bfloat16", 2, marks=needs_bfloat16),
    ],
)
def test_alone_batched_and_repeated_agree_in_every_precision(precision, number, threads):
    threads(number)
    elmo, sentences = small(precision), mixed_sentences()
    together = elmo.embed(sentences)
    assert furthest(elmo.embed(sentences), together) == 0
    alone = [elmo.embed([sentence])[0] for sentence in sentences]
    assert furthest(alone, together) <= ATOL


@pytest.mark.skipif(not torch.cpu._is_avx512_supported(), reason="rows depend on neighbours there")
def test_a_word_said_again_and_again_is_the_same_beside_others(threads):
    """Where nothing changes for long, the least difference between two sums grows tenfold."""
    threads(4)
    elmo = Elmo.from_pretrained("relmo-en-small", device="cpu")
    sentences = [["😀"] * 150, ["a"] * 200]
    alone = [elmo.embed([sentence])[0] for sentence in sentences]
    assert furthest(elmo.embed(sentences), alone) <= ATOL


@pytest.mark.parametrize(
    ("precision", "least"),
    [
        ("rounded weights", 0.9995),
        pytest.param("bfloat16", 0.9995, marks=needs_bfloat16),
        ("int8", 0.999),
    ],
)
def test_coarser_precisions_point_the_same_way_in_each_layer(precision, least):
    sentences = mixed_sentences()
    exact = np.concatenate(small("float32").embed(sentences), 1)  # (L + 1, T, D)
    coarse = np.concatenate(small(precision).embed(sentences), 1)
    sizes = np.linalg.norm(exact, axis=-1) * np.linalg.norm(coarse, axis=-1)
    cosine = ((exact * coarse).sum(-1) / sizes).mean(1)  # (L + 1,)
    assert (cosine >= least).all()
    assert np.abs(exact[1:] - coarse[1:]).max() > 1e-3  # another precision did read


# ── what is packed, and when again ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", ["input_weight", "recurrent_weight", "bias", "projection"])
@pytest.mark.parametrize("stack", ["forward_lstm", "backward_lstm"])
def test_any_weight_that_changes_is_noticed(stack, part, monkeypatch):
    elmo = Elmo.untrained(tiny_config(), seed=1)
    before = elmo.embed(TEXT)
    with torch.no_grad():
        getattr(getattr(elmo.bilm, stack).layers[1], part).add_(0.1)
    after = elmo.embed(TEXT)
    assert furthest(after, before) > 1e-3
    monkeypatch.setenv("RELMO_KERNELS", "reference")
    assert furthest(after, elmo.embed(TEXT)) <= ATOL


@pytest.mark.parametrize("assign", [True, False])
def test_loaded_weights_are_noticed(assign):
    elmo, other = (Elmo.untrained(tiny_config(), seed=seed) for seed in (1, 2))
    elmo.embed(TEXT)
    elmo.bilm.load_state_dict(other.bilm.state_dict(), assign=assign)
    elmo.bilm.requires_grad_(False)
    assert furthest(elmo.embed(TEXT), other.embed(TEXT)) <= ATOL


def test_a_start_state_that_changes_is_noticed():
    elmo = Elmo.untrained(tiny_config(start="stored"), seed=1)
    before = elmo.embed(TEXT)
    with torch.no_grad():
        elmo.bilm.start_backward_c += 1.0
    assert furthest(elmo.embed(TEXT), before) > 1e-2
    elmo.bilm.start = "zero"
    assert furthest(elmo.embed(TEXT), before) <= ATOL  # zero was what it carried


def test_weights_are_packed_once():
    elmo = Elmo.untrained(tiny_config(), seed=1)
    elmo.embed(TEXT)
    engine = elmo.runtime.fast._engine
    elmo.embed(TEXT[::-1])
    assert elmo.runtime.fast._engine is engine
    elmo.runtime.fast.use_precision("int8")
    elmo.embed(TEXT)
    assert elmo.runtime.fast._engine is not engine


def test_another_precision_is_used_from_the_next_call_on():
    elmo = Elmo.untrained(tiny_config(), seed=1)
    exact = elmo.embed(TEXT)
    elmo.runtime.fast.use_precision("int8")
    assert 1e-4 < furthest(elmo.embed(TEXT), exact) < 0.5
    elmo.runtime.fast.use_precision("float32")
    assert furthest(elmo.embed(TEXT), exact) == 0


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("make", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo))])
def test_a_copy_of_a_model_that_has_read_packs_its_own(make, precision):
    elmo = Elmo.untrained(tiny_config(), seed=1)
    elmo.runtime.fast.use_precision(precision)
    wanted = elmo.embed(TEXT)
    other = make(elmo)
    assert other.runtime.fast._engine is None
    assert other.precision == precision
    assert furthest(other.embed(TEXT), wanted) == 0
    with torch.no_grad():
        elmo.bilm.forward_lstm.layers[0].bias.add_(1.0)
    assert furthest(other.embed(TEXT), wanted) == 0


def test_token_vectors_in_training_get_gradients():
    elmo = Elmo.untrained(tiny_config(), seed=1)
    x, lengths = inputs_of([3, 5])
    wanted = elmo.runtime.fast.read(x, lengths)[0].values
    found = elmo.runtime.fast.read(x.requires_grad_(), lengths)[0].values
    found.sum().backward()
    assert x.grad is not None
    assert x.grad.abs().max() > 0
    torch.testing.assert_close(found.detach(), wanted, rtol=0, atol=ATOL)


def test_every_weight_in_training_gets_a_gradient():
    elmo = Elmo.untrained(tiny_config(), seed=1)
    elmo.embed(TEXT)
    elmo.bilm.requires_grad_(True)
    layers = elmo.runtime.fast.read(*inputs_of([3, 5]))[0]
    layers.values.square().sum().backward()
    for stack in (elmo.bilm.forward_lstm, elmo.bilm.backward_lstm):
        assert all(p.grad is not None and p.grad.any() for p in stack.parameters())


# ── modes of torch ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [1, 2])
def test_autocast_changes_nothing(tiny, threads, number):
    threads(number)
    wanted = tiny.embed(TEXT)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert furthest(tiny.embed(TEXT), wanted) == 0


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("number", [1, 2])
def test_inference_mode_changes_nothing(threads, number, precision):
    threads(number)
    wanted_elmo, elmo = (Elmo.untrained(tiny_config(), seed=1) for _ in range(2))
    for each in (wanted_elmo, elmo):
        each.runtime.fast.use_precision(precision)
    wanted = wanted_elmo.embed(TEXT)
    with torch.inference_mode():
        inside = elmo.embed(TEXT)
        _, state = elmo.read(TEXT)
    assert furthest(inside, wanted) == 0
    assert furthest(elmo.embed(TEXT), wanted) == 0
    assert furthest(elmo.read(TEXT, state)[0], wanted) > 1e-3


# ── threads and processes ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_the_number_of_threads_does_not_matter_and_is_left_as_it_was(number, threads):
    elmo, sentences = Elmo.untrained(tiny_config(), seed=1), mixed_sentences()
    threads(1)
    wanted = elmo.embed(sentences)
    threads(number)
    assert furthest(elmo.embed(sentences), wanted) <= ATOL
    assert torch.get_num_threads() == number


def test_threads_that_begin_later_have_as_many_as_before(tiny, threads):
    """Torch hands a new thread the number that was set last, by whomever."""
    threads(4)
    tiny.embed(TEXT)
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert found == [4]


@pytest.mark.parametrize("number", [1, 2])
def test_several_threads_at_once_read_what_one_reads(number, threads):
    threads(number)
    sentences = mixed_sentences()
    wanted = Elmo.untrained(tiny_config(), seed=1).embed(sentences)
    elmo = Elmo.untrained(tiny_config(), seed=1)  # nothing packed yet: all find that out at once
    found: dict[int, list[Vectors]] = {}

    def work(name: int) -> None:
        found[name] = [elmo.embed(sentences) for _ in range(3)][-1]

    workers = [threading.Thread(target=work, args=(name,)) for name in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert sorted(found) == list(range(5))
    assert all(furthest(vectors, wanted) <= ATOL for vectors in found.values())


def test_an_error_in_one_direction_reaches_the_caller(tiny, threads, monkeypatch):
    threads(2)
    monkeypatch.setattr(CpuEngine, "_read", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tiny.runtime.fast.read(*inputs_of([3, 5]))


@pytest.mark.parametrize("number", [1, 2])
def test_a_forked_process_reads_after_its_parent_has(tiny, threads, number):
    """In a thread of its own: OpenMP's threads of the parent do not come along, torch or not."""
    threads(2)
    wanted = tiny.embed(TEXT)  # the parent's pool is there
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def read() -> None:
        torch.set_num_threads(number)
        sender.send(tiny.embed(TEXT))

    def child() -> None:
        worker = threading.Thread(target=read)
        worker.start()
        worker.join()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads is forked
        process = context.Process(target=child, daemon=True)
        process.start()
    try:
        assert receiver.poll(20), "the child stands still"
        assert furthest(receiver.recv(), wanted) <= ATOL
    finally:
        process.kill()
        process.join()


# ── the choice of a precision ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("supported", "chosen"), [(True, "bfloat16"), (False, "float32")])
def test_auto_is_bfloat16_where_the_cpu_has_it(supported, chosen, monkeypatch):
    monkeypatch.setattr(runtime, "has_bfloat16", lambda: supported)
    elmo = Elmo.from_pretrained("relmo-untrained", precision="auto", device="cpu")
    assert elmo.precision == chosen
    assert f"cpu in {chosen}" in repr(elmo)


def test_each_precision_has_its_own_fingerprint(tmp_path):
    Elmo.untrained(tiny_config(), seed=1).save_pretrained(tmp_path)
    found = {
        precision: Elmo.from_pretrained(tmp_path, precision=precision).fingerprint()
        for precision in ("float32", "bfloat16", "int8")
    }
    assert len(set(found.values())) == 3
    assert found["float32"] == Elmo.untrained(tiny_config(), seed=1).fingerprint()


def test_an_unknown_precision_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(ConfigError, match="'int4'; choose float32, bfloat16, int8, auto"):
        Elmo.from_pretrained(tmp_path / "nowhere", precision="int4")
