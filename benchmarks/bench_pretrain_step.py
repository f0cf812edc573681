"""Where the time of a whole pretraining step goes, on one GPU, beside the matrix peak of this run.

PYTHONPATH=src python3 benchmarks/bench_pretrain_step.py CORPUS CACHE base [section.key=value …]
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
import triton.testing

from relmo.nn.state import map_state
from relmo.tasks.lm.settings import load_recipe
from relmo.tasks.lm.task import LmTask
from relmo.tasks.lm.token_cache import open_cache
from relmo.text.documents import find_files
from relmo.train.distributed import join_world
from relmo.train.run import Run
from relmo.train.trainer import Trainer

STEPS = 40


def time_of(run) -> float:
    """Median milliseconds."""
    return triton.testing.do_bench(run, warmup=100, rep=600, return_mode="median")


def matrix_peak() -> float:
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * 8192**3 / time_of(lambda: a @ b) / 1e9


def main() -> None:
    corpus, cache_folder, name, *changes = sys.argv[1:]
    recipe = load_recipe(name, changes)
    cache = open_cache(find_files([corpus]), Path(cache_folder), recipe.data, 15)
    world = join_world("cuda")
    task = LmTask(recipe.model, recipe.lm, cache, 0, world)
    trainer = Trainer(task, recipe.training, recipe.optimizer, Run(Path("/tmp/unused")), world)
    for _ in range(10):
        trainer._train_step(0.5)
        trainer.step += 1
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(STEPS):
        trainer._train_step(0.5)
        trainer.step += 1
    end.record()
    torch.cuda.synchronize()
    whole = start.elapsed_time(end) / STEPS

    model, batch = task.model.train(), task.batches.make(trainer.step)
    rows, window = recipe.lm.rows, recipe.lm.window
    tokens, width = rows * window, recipe.model.lstm.output_width
    state = map_state(torch.Tensor.detach, task._state)
    x = torch.randn(2, window, rows, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    hidden = x.detach().flatten(0, 2).requires_grad_()

    def cnn() -> None:
        vectors = model.token_vectors(batch)
        F.embedding(batch.index, vectors).backward(x.detach())

    def lstms() -> None:
        model.read(x, state, recipe.lm.dropout)[0].backward(x.detach())

    def softmax() -> None:
        model.loss(hidden, batch.targets, batch.counts, batch.negatives).backward()

    def optimizer() -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        kept = [p.grad for p in model.parameters()]
        trainer.optimizer.step()
        for p, grad in zip(model.parameters(), kept, strict=True):
            p.grad = grad

    parts = {f.__name__: time_of(f) for f in (cnn, lstms, softmax, optimizer)}
    parts["rest"] = whole - sum(parts.values())
    H = recipe.model.lstm.cell_width
    negatives = 0 if batch.negatives is None else len(batch.negatives)
    flops = {
        "lstms": 3 * 2 * tokens * recipe.model.lstm.num_layers * 2 * (8 * H * width + H * width),
        "softmax": 3 * 2 * 2 * tokens * width * negatives,
    }
    peak = matrix_peak()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {name} {' '.join(changes)}")
    print(f"matrix peak {peak:.0f} TFLOP/s; {whole:.1f} ms per step of {tokens:,} tokens: ", end="")
    print(f"{1000 * tokens / whole:,.0f} tokens/s; {len(batch.words):,} distinct words")
    for part, ms in parts.items():
        rate = flops.get(part, 0) / ms / 1e9 if ms > 0 else 0.0
        share = f"{rate:.0f} TFLOP/s, {rate / peak:.0%} of the peak" if rate else ""
        print(f"{part:<10} {ms:6.1f} ms {ms / whole:6.1%}  {share}")
    print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    task.batches.close()


if __name__ == "__main__":
    main()
