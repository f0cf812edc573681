"""The Triton kernels against plain torch: values and every gradient.

On a CPU they run under Triton's interpreter, which must be switched on before Triton is imported.
So the file also runs as a program: a process of its own computes all errors and prints them once.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from math import inf
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import relmo
from relmo.config import ElmoConfig, LstmConfig, WordTableConfig
from relmo.errors import ConfigError
from relmo.kernels import full_softmax, reference
from relmo.kernels.full_softmax import FullSoftmax, Readings
from relmo.kernels.reference import Clips, LstmWeights
from relmo.nn.bilm import BiLM, initialize, read_sentences
from relmo.nn.blocks import encoder
from relmo.nn.blocks.crf import NEVER, plain_log_sum
from relmo.nn.blocks.encoder import RecurrentEncoder, split_layer
from relmo.nn.lm_head import taught_losses
from relmo.tasks.srl.model import AlternatingLstm

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}
"""Largest error allowed in any tensor, relative in norm."""
CLIPPED_BFLOAT16 = 1e-1
"""The same for gradients through clips: a value near its bound may round to the other side of it,
and then its gradient is there or not."""

LSTM_CASES = {  # T, B, P, H, cell_clip, output_clip, how x lies in memory
    "no clips": (3, 2, 5, 7, None, None, "plain"),
    "cell clip": (3, 2, 5, 7, 0.3, None, "plain"),
    "output clip": (3, 2, 5, 7, None, 0.1, "plain"),
    "both clips": (3, 2, 5, 7, 0.3, 0.1, "plain"),
    "clips that are whole numbers": (3, 2, 5, 7, 1, 1, "plain"),
    "one of everything": (1, 1, 1, 1, None, None, "plain"),
    "one row of many steps": (9, 1, 3, 2, 0.3, 0.1, "plain"),
    "cells of more than one block": (2, 2, 3, 1030, 0.3, 0.1, "plain"),
    "x batch first": (3, 2, 5, 7, None, None, "batch first"),
    "x with gaps": (3, 2, 5, 7, None, None, "gaps"),
}
SOFTMAX_CASES = {  # N, S, P, tokens at a time, size of the scores, a teacher's share
    "some hits": (7, 5, 3, 100, 1.0),
    "one negative": (4, 1, 2, 100, 1.0),
    "one token": (1, 33, 3, 100, 1.0),
    "a full block": (5, 16, 4, 100, 1.0),
    "several pieces": (10, 9, 3, 4, 1.0),
    "scores beyond what exp can hold": (6, 9, 3, 100, 100.0),
    "a teacher": (7, 33, 3, 100, 1.0, 0.3),
    "a teacher alone, several pieces": (10, 9, 3, 4, 1.0, 1.0),
    "a teacher and large scores": (6, 9, 3, 100, 100.0, 0.5),
}
FULL_SOFTMAX_CASES = {  # words, tokens, words of a block, rows of a block, piece, size of scores
    "full softmax, pieces that are not full": (70, 7, 33, 6, 16, 1.0),
    "full softmax, blocks smaller than a piece": (20, 5, 7, 100, 16, 1.0),
    "full softmax, one word in the last block": (33, 4, 16, 100, 16, 1.0),
    "full softmax, one block and one token": (16, 1, 64, 100, 16, 1.0),
    "full softmax, no word likely from both sides": (70, 7, 33, 6, 16, 10.0),
    "full softmax, scores beyond what exp can hold": (70, 7, 33, 6, 16, 100.0),
}
ENGINE_CASES = {  # clips, layers, skips
    "engine, no clips": (None, 2, True),
    "engine, clips": (0.3, 2, True),
    "engine, three layers without skips": (None, 3, False),
}
CRF_CASES = {  # lengths, tags, size of the scores
    "crf, sentences of many lengths": ((4, 1, 7, 2), 5, 1.0),
    "crf, hardly a token": ((1, 2), 3, 1.0),
    "crf, a full block": ((3, 2), 16, 1.0),
    "crf, more than one block of tags": ((3, 5), 17, 1.0),
    "crf, scores beyond what exp can hold": ((6, 3), 4, 100.0),
}
RECURRENT_CASES = {  # kind, width, features, lengths
    "a narrow lstm": ("lstm", 5, 7, (4, 1, 6, 2)),
    "a narrow gru": ("gru", 5, 7, (4, 1, 6, 2)),
    "an lstm of more than a tile": ("lstm", 3, 70, (3, 2)),
    "a gru of several tiles": ("gru", 3, 130, (3, 2)),
    "an lstm of sentences without words": ("lstm", 3, 5, (0, 2, 0)),
    "a gru of sentences without words": ("gru", 3, 5, (0, 0, 3, 0, 2, 1, 0, 0)),
    "an lstm of one direction": ("one-way lstm", 5, 7, (4, 1, 6, 0, 2)),
    "a gru of more than one program": ("gru", 3, 5, (2,) * 17 + (5, 0, 3)),
}
WEIGHTS = LstmWeights._fields
SOFTMAX_INPUTS = ("hidden", "target", "target_bias", "negatives", "negative_bias")
RECURRENT_NAMES = (
    "outputs", "d x",
    *(f"d {name}_l0{end}" for end in ("", "_reverse")
      for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")),
)  # fmt: skip
CRF_INPUTS = ("scores", "transitions", "start", "end")

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None, reason="Triton is not installed: pip install triton"
)


@pytest.fixture(scope="module")
def interpreted() -> dict[str, dict[str, float]]:
    """Errors of every case under the interpreter."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(relmo.__file__).parents[1]),
        "TRITON_INTERPRET": "1",
    }
    done = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", LSTM_CASES)
def test_the_lstm_and_its_gradients_are_the_references(case, interpreted):
    errors = interpreted[case]
    assert set(errors) == {"outputs", "h", "c", "d x", *(f"d {name}" for name in WEIGHTS)}
    assert max(errors.values()) < TOLERANCE[torch.float32], errors


@pytest.mark.parametrize("case", SOFTMAX_CASES)
def test_the_sampled_loss_and_its_gradients_are_plain_torchs(case, interpreted):
    errors = interpreted[case]
    assert set(errors) == {"loss", *(f"d {name}" for name in SOFTMAX_INPUTS)}
    assert max(errors.values()) < TOLERANCE[torch.float32], errors


@pytest.mark.parametrize("case", [*FULL_SOFTMAX_CASES, "full softmax, impossible words"])
def test_the_full_softmax_is_plain_torchs(case, interpreted):
    errors = interpreted[case]
    assert set(errors) == {"losses", "sum to 1", *Readings._fields}
    assert all(value < 1e-5 for value in errors.values()), errors


@pytest.mark.parametrize("case", CRF_CASES)
def test_sums_over_sequences_of_tags_and_their_gradients_are_the_plain_loops(case, interpreted):
    errors = interpreted[case]
    assert set(errors) == {"sums", *(f"d {name}" for name in CRF_INPUTS)}
    assert max(errors.values()) < TOLERANCE[torch.float32], errors


@pytest.mark.parametrize("case", RECURRENT_CASES)
def test_a_recurrent_layer_and_its_gradients_are_torchs_own(case, interpreted):
    errors = interpreted[case]
    ends = 1 if "one direction" in case else 2
    assert tuple(errors) == RECURRENT_NAMES[: 2 + 4 * ends]
    assert max(errors.values()) < TOLERANCE[torch.float32], errors


def test_layers_that_read_in_turn_from_both_sides_are_those_over_packed_sentences(interpreted):
    assert interpreted["alternating"]["outputs"] < 1e-3  # products of float16


@pytest.mark.parametrize("case", ENGINE_CASES)
def test_the_engine_reads_as_the_bilm_does(case, interpreted):
    assert interpreted[case].keys() == {"values", "h", "c", "from a state"}
    assert max(interpreted[case].values()) < TOLERANCE[torch.float32], interpreted[case]


@pytest.mark.parametrize("case", ["lstm in bfloat16", "softmax in bfloat16", "engine in bfloat16"])
def test_bfloat16_is_near_float32(case, interpreted):
    assert max(interpreted[case].values()) < TOLERANCE[torch.bfloat16], interpreted[case]


def test_what_the_kernels_cannot_do_is_refused(interpreted):
    assert interpreted["refused"] == {
        "no projection": "ConfigError",
        "a second backward pass": "RuntimeError",
        "a gradient of the lstm's gradient": "RuntimeError",
        "a gradient of the softmax's gradient": "RuntimeError",
        "a gradient of the crf's gradient": "RuntimeError",
    }


@pytest.mark.gpu
@pytest.mark.parametrize(("T", "B", "P", "H"), [(8, 33, 64, 1030), (5, 1, 16, 24)])
def test_on_a_gpu_the_lstm_in_bfloat16_is_near_the_reference_in_float32(T, B, P, H):
    errors = lstm_errors(T, B, P, H, None, None, "plain", "cuda", torch.bfloat16)
    assert max(errors.values()) < TOLERANCE[torch.bfloat16], errors


@pytest.mark.gpu
def test_on_a_gpu_clips_in_bfloat16_are_near_the_references_in_float32():
    errors = lstm_errors(8, 33, 64, 1030, 0.3, 0.1, "plain", "cuda", torch.bfloat16)
    values = [errors.pop(name) for name in ("outputs", "h", "c")]
    assert max(values) < TOLERANCE[torch.bfloat16], values
    assert max(errors.values()) < CLIPPED_BFLOAT16, errors


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_on_a_gpu_the_engine_reads_as_the_bilm_does(dtype):
    errors = engine_errors(0.3, 2, True, "cuda", dtype)
    assert max(errors.values()) < TOLERANCE[dtype], errors


@pytest.mark.gpu
@pytest.mark.parametrize("S", [100, 1000, 4096])
def test_on_a_gpu_the_sampled_loss_in_bfloat16_is_near_plain_torch_in_float32(S):
    for share in (None, 0.5):
        errors = softmax_errors(100, S, 64, 64, 1.0, "cuda", torch.bfloat16, share)
        assert max(errors.values()) < TOLERANCE[torch.bfloat16], errors


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("size", "tolerance"), [(0.4, 5e-5), (1.5, 3e-4)])  # scores up to 8, 110
def test_on_a_gpu_the_full_softmax_is_plain_torchs(precision, size, tolerance):
    given = full_softmax_inputs(100_000, 5000, 128, size, "cuda")
    softmax = FullSoftmax(*given[:2], precision)
    assert softmax._has_kernel
    found = [*softmax.readings(*given[2:]), softmax.losses(given[2], given[4])]
    softmax._has_kernel = False
    wanted = [*softmax.readings(*given[2:]), softmax.losses(given[2], given[4])]
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("features", [7, 90, 200, 300])
def test_on_a_gpu_a_recurrent_layer_is_torchs_own(kind, features):
    lengths = (60, 1, 0, *range(3, 43))
    errors = recurrent_errors(kind, 50, features, lengths, "cuda", exact=True)
    assert max(errors.values()) < 1e-5, errors  # sums over 60 steps
    errors = recurrent_errors(kind, 50, features, lengths, "cuda", exact=False)
    assert max(errors.values()) < TOLERANCE[torch.bfloat16], errors


@pytest.mark.gpu
def test_on_a_gpu_layers_that_read_in_turn_from_both_sides_are_those_over_packed_sentences():
    assert alternating_errors("cuda")["outputs"] < 2e-3  # products of float16


@pytest.mark.gpu
def test_on_a_gpu_an_encoder_reads_as_torch_does():
    torch.manual_seed(0)
    both = RecurrentEncoder(20, 30, num_layers=2).cuda()
    x, lengths = torch.randn(5, 9, 20, device="cuda"), torch.tensor([9, 3, 0, 1, 7])
    found = both(x, lengths)
    wanted = both.cpu()(x.cpu(), lengths) * (torch.arange(9) < lengths[:, None])[..., None]
    assert error(found.cpu(), wanted) < 2e-3  # products of float16


@pytest.mark.gpu
@pytest.mark.parametrize("num_tags", [9, 17, 50, 128])
def test_on_a_gpu_sums_over_sequences_of_tags_are_the_plain_loops(num_tags):
    errors = crf_errors((60, 113, 1, 30), num_tags, 3.0, "cuda")
    assert max(errors.values()) < TOLERANCE[torch.float32], errors


def lstm_inputs(T, B, P, H, layout, device, dtype):
    """x, h, c and weights, all of values that the dtype holds."""
    generator = torch.Generator().manual_seed(1)

    def random(*shape, scale):
        values = scale * torch.randn(shape, generator=generator)
        return values.to(dtype).to(device)

    x, h, c = random(2, T, B, P, scale=1.0), random(2, B, P, scale=0.3), random(2, B, H, scale=0.3)
    if layout == "batch first":
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
    elif layout == "gaps":
        x = torch.cat([x, x], 1)[:, :T]
    weights = LstmWeights(
        input=random(2, 4 * H, P, scale=P**-0.5),
        recurrent=random(2, 4 * H, P, scale=P**-0.5),
        bias=random(2, 4 * H, scale=0.5),
        projection=random(2, P, H, scale=H**-0.5),
    )
    return x.requires_grad_(), h, c.float(), LstmWeights(*(w.requires_grad_() for w in weights))


def lstm_errors(T, B, P, H, cell_clip, output_clip, layout, device, dtype):
    """How far outputs, state and gradients are from the reference in float32."""
    from relmo.kernels import triton_lstm

    x, h, c, weights = lstm_inputs(T, B, P, H, layout, device, dtype)
    found = triton_lstm.paired_lstm(x, h, c, weights, Clips(cell_clip, output_clip))
    exact = [tensor.detach().float().requires_grad_() for tensor in (x, *weights)]
    wanted = reference.paired_lstm(
        exact[0], h.float(), c, LstmWeights(*exact[1:]), Clips(cell_clip, output_clip)
    )
    for values, clip in ((wanted[2], cell_clip), (wanted[0], output_clip)):
        if clip is not None and clip < 1:
            assert 0 < (values.abs() == clip).float().mean() < 1, "all or nothing is clipped"
    pull = torch.randn(wanted[0].shape, generator=torch.Generator().manual_seed(2)).to(device)
    gradients = torch.autograd.grad(found[0], (x, *weights), pull.to(dtype))
    wanted_gradients = torch.autograd.grad(wanted[0], exact, pull.to(dtype).float())
    names = ["outputs", "h", "c", "d x", *(f"d {name}" for name in WEIGHTS)]
    pairs = zip([*found, *gradients], [*wanted, *wanted_gradients], strict=True)
    return {name: error(*pair) for name, pair in zip(names, pairs, strict=True)}


def engine_errors(clip, num_layers, has_skips, device, dtype):
    """How far layers and state are from the plain biLM's."""
    from relmo.runtime.engines import GpuEngine

    config = ElmoConfig(
        tokens=WordTableConfig(width=6, num_words=4),
        lstm=LstmConfig(
            num_layers=num_layers, cell_width=10, output_width=6, has_skips=has_skips,
            cell_clip=clip, output_clip=clip,
        ),
    )  # fmt: skip
    bilm = initialize(BiLM(config), seed=1).requires_grad_(False).to(device)
    engine, lengths = GpuEngine(bilm, dtype), torch.tensor([3, 7, 1, 7, 2])
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(5, 7, 6, generator=generator).to(device)

    def read(state):
        return read_sentences(engine, x, lengths, bilm.begin(state, 5))

    layers, state = read(None)
    wanted, after = bilm.read(x, lengths)
    assert torch.equal(layers.mask, wanted.mask)
    again = error(read(after)[0].values, bilm.read(x, lengths, after)[0].values)
    parts = {
        part: max(
            error(getattr(state.forward, part), getattr(after.forward, part)),
            error(getattr(state.backward, part), getattr(after.backward, part)),
        )
        for part in "hc"
    }
    return {"values": error(layers.values, wanted.values), **parts, "from a state": again}


def softmax_errors(N, S, P, rows, size, device, dtype, share=None):
    """How far the loss and its gradients are from plain torch in float32; share of a teacher."""
    from relmo.kernels import triton_softmax

    generator = torch.Generator().manual_seed(3)
    hidden, target = (size * torch.randn(N, P, generator=generator) for _ in range(2))
    negatives = torch.randn(S, P, generator=generator)
    biases = (torch.randn(n, generator=generator).to(device) for n in (N, S))
    hits = torch.randint(-1, S, (N,), generator=generator, dtype=torch.int32).to(device)
    hits[::3] = -1
    scale = torch.rand(N, generator=generator).to(device) / N
    scale[-1:] *= 0.0 if N > 1 else 1.0  # a token that does not count
    hidden, target, negatives = (t.to(dtype).to(device) for t in (hidden, target, negatives))
    target_bias, negative_bias = biases
    negative_bias[8:9] = -1e30  # a column that only fills the sample up
    inputs = [hidden, target, target_bias, negatives, negative_bias]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    exact = [tensor.detach().float().requires_grad_() for tensor in inputs]
    triton_softmax.ROWS = rows
    taught = None
    if share is not None:
        theirs = [torch.randn(t.shape, generator=generator).to(t) for t in inputs]
        theirs[4][8:9] = -1e30
        taught = triton_softmax.Taught(*theirs, share)
    found = triton_softmax.sampled_loss(*inputs, hits, scale, taught)
    wanted = plain_sampled_loss(*exact, hits, scale, taught)
    gradients = torch.autograd.grad(3 * found, inputs)
    wanted_gradients = torch.autograd.grad(3 * wanted, exact)
    names = ["loss", *(f"d {name}" for name in SOFTMAX_INPUTS)]
    pairs = zip([found, *gradients], [wanted, *wanted_gradients], strict=True)
    return {name: error(*pair) for name, pair in zip(names, pairs, strict=True)}


def full_softmax_inputs(V, N, P, size, device):
    """Weight, bias, what is said before and after each token, and words from first to last."""
    generator = torch.Generator().manual_seed(7)
    shapes = (V, P), (V,), (N, P), (N, P)
    given = [size * torch.randn(shape, generator=generator) for shape in shapes]
    return [each.to(device) for each in (*given, torch.linspace(0, V - 1, N).long())]


def full_softmax_errors(V, N, words, rows, piece, size, impossible=0):
    """How far the kernel is from plain torch, where the first words may be impossible."""
    from relmo.kernels import triton_full_softmax

    weight, bias, *hidden, targets = full_softmax_inputs(V, N, 3, size, "cpu")
    triton_full_softmax.PIECE = piece
    full_softmax.ROWS, full_softmax.WORDS = {"cpu": rows}, {"cpu": words}
    ours = FullSoftmax(
        F.pad(weight, (0, 0, impossible, 0)), F.pad(bias, (impossible, 0), value=-inf)
    )
    theirs = FullSoftmax(weight, bias)
    ours._has_kernel = True
    found = ours.readings(*hidden, impossible + targets)
    wanted = theirs.readings(*hidden, targets)
    errors = {
        name: relative(*pair) for name, *pair in zip(Readings._fields, found, wanted, strict=True)
    }
    losses = ours.losses(hidden[0], impossible + targets)
    every = ours.losses(hidden[0][:1].expand(impossible + V, -1), torch.arange(impossible + V))
    total = (-every.double()).exp().sum()
    return {
        **errors,
        "losses": relative(losses, theirs.losses(hidden[0], targets)),
        "sum to 1": relative(total, torch.ones(())),
    }


def relative(found, wanted) -> float:
    """The largest difference, as a share of what is wanted where that is large."""
    return ((found - wanted).abs() / wanted.abs().clamp(min=1)).max().item()


def recurrent_errors(kind, width, features, lengths, device, exact):
    """How far outputs and gradients are from torch's own layer on a CPU in float64."""
    from relmo.kernels.triton_recurrent import recurrent_layer

    torch.manual_seed(5)
    make, is_both = torch.nn.GRU if kind == "gru" else torch.nn.LSTM, "one-way" not in kind
    layer = make(width, features, bidirectional=is_both)
    N, counts = sum(lengths), torch.tensor(lengths)
    x, pull = torch.randn(N, width), torch.randn(N, (1 + is_both) * features)
    starts = counts.cumsum(0) - counts

    def gradients(outputs, tokens):
        return torch.autograd.grad(outputs, (tokens, *layer.parameters()), pull.to(outputs))

    layer.double()
    tokens = x.double().requires_grad_()
    wanted = torch.cat([layer(each)[0] for each in tokens.split(lengths) if len(each)])
    wanted = [wanted, *gradients(wanted, tokens)]
    layer.float().to(device)
    tokens = x.to(device).requires_grad_()
    places = (each.int().to(device) for each in (starts, counts))
    found = recurrent_layer(*split_layer(layer, tokens), *places, exact).flatten(1)
    found = [found, *gradients(found, tokens)]
    return {
        name: error(ours.cpu(), theirs)
        for name, ours, theirs in zip(RECURRENT_NAMES, found, wanted, strict=False)
    }


def alternating_errors(device):
    """How far layers that read in turn from both sides are from those over packed sentences."""
    torch.manual_seed(6)
    model = AlternatingLstm(5, 7, 3, dropout=0.0).to(device)
    x, lengths = torch.randn(4, 6, 5, device=device), torch.tensor([4, 1, 0, 6])
    usual, encoder.has_triton = encoder.has_triton, lambda device: True
    try:
        found = model(x, lengths)
    finally:
        encoder.has_triton = usual
    is_word = (torch.arange(6) < lengths[:, None])[..., None]  # packing puts a token in every row
    return {"outputs": error(found.cpu(), model.cpu()(x.cpu(), lengths) * is_word)}


def crf_errors(lengths, num_tags, size, device):
    """How far sums over all sequences and their gradients are from the plain loop in float64."""
    from relmo.kernels import triton_crf

    generator = torch.Generator().manual_seed(4)
    B, T, K = len(lengths), max(lengths), num_tags
    shapes = (B, T, K), (K, K), (K,), (K,)
    given = [size * torch.randn(shape, generator=generator) for shape in shapes]
    given[1][0, 1:] = NEVER  # what may follow the first tag
    given = [tensor.to(device).requires_grad_() for tensor in given]
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    counts = torch.tensor(lengths, device=device)
    found = triton_crf.log_sum(given[0], counts, *given[1:])
    wanted = plain_log_sum(exact[0], torch.arange(T, device=device) < counts[:, None], *exact[1:])
    pull = torch.arange(1.0, B + 1, device=device)
    gradients = torch.autograd.grad(found, given, pull)
    wanted_gradients = torch.autograd.grad(wanted, exact, pull.double())
    names = ["sums", *(f"d {name}" for name in CRF_INPUTS)]
    pairs = zip([found, *gradients], [wanted, *wanted_gradients], strict=True)
    return {name: error(*pair) for name, pair in zip(names, pairs, strict=True)}


def plain_sampled_loss(hidden, target, target_bias, negatives, negative_bias, hits, scale, taught):
    scores = plain_scores(hidden, target, target_bias, negatives, negative_bias, hits)
    if taught is None:
        return (scale * (torch.logsumexp(scores, 1) - scores[:, 0])).sum()
    theirs = plain_scores(*(t.detach().float() for t in taught[:5]), hits)
    return (scale * taught_losses(scores, theirs, 0 * hits.long(), taught.weight)).sum()


def plain_scores(hidden, target, target_bias, negatives, negative_bias, hits):
    own = (hidden * target).sum(-1) + target_bias  # (N,)
    scores = hidden @ negatives.T + negative_bias  # (N, S)
    is_own = torch.arange(len(negatives), device=hits.device) == hits.unsqueeze(1)
    return torch.cat([own.unsqueeze(1), scores.masked_fill(is_own, -1e30)], 1)


def error(found, wanted) -> float:
    """The norm of the difference, as a share of the wanted norm."""
    assert found.shape == wanted.shape
    return ((found - wanted).norm() / wanted.norm()).item()


def refusals() -> dict[str, str]:
    """What each thing that the kernels cannot do raises."""
    from relmo.kernels.triton_crf import log_sum
    from relmo.kernels.triton_lstm import paired_lstm
    from relmo.kernels.triton_softmax import sampled_loss

    x, h, c, weights = lstm_inputs(2, 1, 2, 3, "plain", "cpu", torch.float32)

    def without_projection():
        paired_lstm(x, h, c, weights._replace(projection=None), Clips())

    def backward_twice():
        total = paired_lstm(x, h, c, weights, Clips())[0].sum()
        for _ in range(2):
            total.backward(retain_graph=True)

    def gradient_of_the_lstms_gradient():
        total = paired_lstm(x, h, c, weights, Clips())[0].sum()
        torch.autograd.grad(total, x, create_graph=True)[0].sum().backward()

    def gradient_of_the_softmaxs_gradient():
        hidden, ones = torch.ones(2, 3, requires_grad=True), torch.ones(2)
        hits = torch.tensor([-1, 0], dtype=torch.int32)
        loss = sampled_loss(hidden, torch.ones(2, 3), ones, torch.ones(2, 3), ones, hits, ones)
        torch.autograd.grad(loss, hidden, create_graph=True)[0].sum().backward()

    def gradient_of_the_crfs_gradient():
        scores, ones = torch.ones(1, 2, 3, requires_grad=True), torch.ones(3)
        sums = log_sum(scores, torch.tensor([2]), torch.ones(3, 3), ones, ones)
        torch.autograd.grad(sums, scores, create_graph=True)[0].sum().backward()

    return {
        "no projection": raised(without_projection),
        "a second backward pass": raised(backward_twice),
        "a gradient of the lstm's gradient": raised(gradient_of_the_lstms_gradient),
        "a gradient of the softmax's gradient": raised(gradient_of_the_softmaxs_gradient),
        "a gradient of the crf's gradient": raised(gradient_of_the_crfs_gradient),
    }


def raised(run) -> str:
    try:
        run()
    except (ConfigError, RuntimeError) as error:
        return type(error).__name__
    return "nothing"


def all_errors() -> dict[str, dict[str, float] | dict[str, str]]:
    exact, coarse = ("cpu", torch.float32), ("cpu", torch.bfloat16)
    return {
        **{case: lstm_errors(*sizes, *exact) for case, sizes in LSTM_CASES.items()},
        **{
            case: softmax_errors(*sizes[:5], *exact, *sizes[5:])
            for case, sizes in SOFTMAX_CASES.items()
        },
        **{case: full_softmax_errors(*sizes) for case, sizes in FULL_SOFTMAX_CASES.items()},
        "full softmax, impossible words": full_softmax_errors(50, 7, 33, 6, 16, 1.0, impossible=70),
        **{case: engine_errors(*sizes, *exact) for case, sizes in ENGINE_CASES.items()},
        **{case: crf_errors(*sizes, "cpu") for case, sizes in CRF_CASES.items()},
        **{
            case: recurrent_errors(*sizes, "cpu", exact=True)
            for case, sizes in RECURRENT_CASES.items()
        },
        "alternating": alternating_errors("cpu"),
        "engine in bfloat16": engine_errors(None, 2, True, *coarse),
        "lstm in bfloat16": lstm_errors(4, 3, 16, 24, None, None, "plain", *coarse),
        "softmax in bfloat16": softmax_errors(20, 50, 16, 8, 1.0, *coarse),
        "refused": refusals(),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(all_errors()))  # noqa: T201


@pytest.mark.parametrize(("rows", "width"), [(3, 64), (3, 40), (300, 64)])
def test_a_product_in_pieces_is_the_product(rows, width):
    """In pieces: few rows of float32 whose width has 32 equal parts; the others at once."""
    pytest.importorskip("triton")
    from relmo.kernels.triton_lstm import add_product

    generator = torch.Generator().manual_seed(0)
    gates = torch.randn(2, 5, rows, width, generator=generator)
    weight = torch.randn(2, width, 6, generator=generator)
    sums = torch.randn(2, rows, 6, generator=generator)
    wanted = sums.double() + gates[:, 2].double() @ weight.double()
    add_product(sums, gates[:, 2], weight)
    torch.testing.assert_close(sums.double(), wanted, rtol=0, atol=1e-4)
