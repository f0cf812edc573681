"""Where a pretraining step's time goes, part by part, on one GPU: bench_pretrain_parts.py [small]."""

import sys
import warnings

import torch
import triton.testing

from relmo.kernels import gemm_char_cnn, triton_lstm, triton_softmax
from relmo.kernels.reference import LstmWeights

warnings.filterwarnings("ignore", message="RNN module weights")
SMALL = "small" in sys.argv
H, P = (1024, 128) if SMALL else (4096, 512)
HIGHWAYS = 1 if SMALL else 2
DEVICE, BF16 = "cuda", torch.bfloat16


def time_of(run) -> float:
    """Median milliseconds."""
    return triton.testing.do_bench(run, warmup=50, rep=300, return_mode="median")


def matrix_peak() -> float:
    a, b = (torch.randn(8192, 8192, device=DEVICE, dtype=BF16) for _ in range(2))
    return 2 * 8192**3 / time_of(lambda: a @ b) / 1e9


def lstm_inputs(B: int, T: int):
    def random(*shape: int, scale: float = 0.05) -> torch.Tensor:
        return (torch.randn(*shape, device=DEVICE) * scale).to(BF16).requires_grad_()

    x = random(2, T, B, P, scale=1.0)
    weights = LstmWeights(
        random(2, 4 * H, P), random(2, 4 * H, P), random(2, 4 * H), random(2, P, H)
    )
    return (
        x,
        torch.zeros(2, B, P, device=DEVICE, dtype=BF16),
        torch.zeros(2, B, H, device=DEVICE),
        weights,
    )


def bench_ours(B: int, T: int, clip: float | None) -> tuple[float, float]:
    x, h, c, weights = lstm_inputs(B, T)
    d = torch.randn_like(x)

    def step() -> None:
        out, _, _ = triton_lstm.paired_lstm(x, h, c, weights, clip, clip)
        torch.autograd.grad(out, [x, *weights], d)

    with torch.no_grad():
        forward = time_of(lambda: triton_lstm.paired_lstm(x, h, c, weights, clip, clip))
    return forward, time_of(step)


def bench_cudnn(B: int, T: int, streams: bool) -> float:
    lstms = [torch.nn.LSTM(P, H, proj_size=P).to(DEVICE, BF16) for _ in range(2)]
    xs = [torch.randn(T, B, P, device=DEVICE, dtype=BF16, requires_grad=True) for _ in range(2)]
    side = [torch.cuda.Stream() for _ in range(2)]

    def one(k: int) -> None:
        out, _ = lstms[k](xs[k])
        torch.autograd.grad(out, [xs[k], *lstms[k].parameters()], torch.ones_like(out))

    def step() -> None:
        for k in range(2):
            if streams:
                side[k].wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side[k]):
                    one(k)
                torch.cuda.current_stream().wait_stream(side[k])
            else:
                one(k)

    return time_of(step)


def check_against_cudnn() -> float:
    x, h, c, weights = lstm_inputs(64, 16)
    out, _, _ = triton_lstm.paired_lstm(x, h, c, weights)
    worst = 0.0
    for k in range(2):
        lstm = torch.nn.LSTM(P, H, proj_size=P).to(DEVICE, torch.float32)
        with torch.no_grad():
            lstm.weight_ih_l0.copy_(weights.input[k])
            lstm.weight_hh_l0.copy_(weights.recurrent[k])
            lstm.bias_ih_l0.copy_(weights.bias[k])
            lstm.bias_hh_l0.zero_()
            lstm.weight_hr_l0.copy_(weights.projection[k])
            wanted, _ = lstm(x[k].float())
        worst = max(worst, float((out[k].float() - wanted).norm() / wanted.norm()))
    return worst


def bench_cnn(N: int, C: int) -> tuple[float, float]:
    sizes = [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)]
    embedding = torch.randn(262, 16, device=DEVICE, dtype=BF16, requires_grad=True)
    filters = [
        (
            torch.randn(n, 16, w, device=DEVICE, dtype=BF16, requires_grad=True),
            torch.zeros(n, device=DEVICE, dtype=BF16, requires_grad=True),
        )
        for w, n in sizes
    ]
    high = [
        torch.randn(2048, 4096, device=DEVICE, dtype=BF16).mul_(0.02).requires_grad_()
        for _ in range(HIGHWAYS)
    ]
    ids = torch.randint(1, 262, (N, C), device=DEVICE)
    leaves = [embedding, *(t for pair in filters for t in pair), *high]

    def convolve() -> torch.Tensor:
        return gemm_char_cnn.char_convolutions(embedding[ids], filters, "relu")

    def whole() -> torch.Tensor:
        x = convolve()
        for w in high:
            moved, carried = (x @ w).chunk(2, -1)
            gate = torch.sigmoid(carried)
            x = gate * torch.relu(moved) + (1 - gate) * x
        return x

    def grads(run, wanted) -> None:
        out = run()
        torch.autograd.grad(out, wanted, torch.ones_like(out))

    return time_of(lambda: grads(convolve, leaves[: 1 + 2 * len(filters)])), time_of(
        lambda: grads(whole, leaves)
    )


def bench_softmax(N: int, S: int) -> float:
    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=DEVICE).to(BF16).requires_grad_()

    hidden, target, negatives = random(N, P), random(N, P), random(S, P)
    zeros, negative_bias = torch.zeros(N, device=DEVICE), torch.zeros(S, device=DEVICE)
    hits = torch.full((N,), -1, device=DEVICE, dtype=torch.int32)
    scale = torch.ones(N, device=DEVICE)

    def step() -> None:
        loss = triton_softmax.sampled_loss(
            hidden, target, zeros, negatives, negative_bias, hits, scale
        )
        torch.autograd.grad(loss, [hidden, target, negatives])

    return time_of(step)


def bench_adamw(count: int) -> float:
    parameters = [torch.zeros(count // 10, device=DEVICE, requires_grad=True) for _ in range(10)]
    for p in parameters:
        p.grad = torch.zeros_like(p)
    optimizer = torch.optim.AdamW(parameters, fused=True)
    return time_of(optimizer.step)


print(torch.cuda.get_device_name(), torch.__version__, "cell", H, "projection", P)
print(
    f"matrix peak {matrix_peak():.0f} TFLOP/s; error against cuDNN float32 {check_against_cudnn():.4f}"
)
flops = 2 * (2 * 4 * H * P + H * P)
for B, T in ((512, 32), (1024, 32), (2048, 32), (2048, 20)):
    forward, both = bench_ours(B, T, None)
    clipped = bench_ours(B, T, 3.0)[1]
    plain, streamed = bench_cudnn(B, T, False), bench_cudnn(B, T, True)
    work = 3 * 2 * flops * B * T / 1e9
    print(
        f"LSTM pair B {B} T {T}: ours forward {forward:.2f} ms, with backward {both:.2f} ms "
        f"({work / both:.0f} TFLOP/s, {B * T / both / 2:.0f} k tok/s for two layers), clipped {clipped:.2f}; "
        f"cuDNN {plain:.2f}, two streams {streamed:.2f}"
    )
for N, C in ((9000, 16), (14000, 16), (2000, 25)):
    conv, whole = bench_cnn(N, C)
    print(f"CNN {N} words of {C} columns: convolutions {conv:.2f} ms, with highways {whole:.2f} ms")
for N in (32768, 65536):
    print(f"softmax {N} tokens x 8192: {bench_softmax(N, 8192):.2f} ms")
print(f"AdamW 145 M: {bench_adamw(145_000_000):.2f} ms")
print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
