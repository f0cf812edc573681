"""A biLM with its softmax in training: a batch and a state in, a loss and a state out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from relmo.kernels import cpu_training
from relmo.kernels.device import has_triton, uses_fast_kernels
from relmo.nn.bilm import BiLM, LstmStack, read_windows
from relmo.nn.lm_head import MASKED, Lesson, LmHead, Sample, log_uniform
from relmo.nn.token_layers import CharCnn
from relmo.tasks.lm.data import LmBatch
from relmo.tasks.lm.settings import LmSettings
from relmo.types import BiLmState, LstmState

ALIGNMENT = 128
WORDS_AT_ONCE = 512
"""Words whose vectors are computed at a time where they are kept."""
COMMON = 1e-4
"""Frequency above which a word has less weight in the loss of words ahead."""


class LmModel(nn.Module):
    """Two language models that share token layer and softmax.

    Args:
        bilm: the model without its softmax.
        head: the softmax.
        spelling: (words, C) ids of every word of the corpus.
        log_chances: (V,) log of each word's probability as a negative; None for the full softmax.
        settings: of a step.
    """

    log_chances: Tensor | None
    rareness: Tensor

    def __init__(
        self,
        bilm: BiLM,
        head: LmHead,
        spelling: Tensor,
        log_chances: Tensor | None,
        settings: LmSettings,
    ) -> None:
        super().__init__()
        self.bilm, self.head, self.settings = bilm, head, settings
        self.spelling = [spelling]  # in a list: not a buffer, so it is not saved with the weights
        self.register_buffer("log_chances", log_chances, persistent=False)
        self._vectors: list[Tensor] = []  # of the words met so far, where they are not trained
        self._graph: list[Callable[..., Any]] = []  # in a list: its weights are registered already
        if settings.ahead:
            V, P = head.weight.shape
            self.ahead = nn.Parameter(torch.eye(P).repeat(2, 1, 1))  # (2, P, P): per direction
            rareness = np.minimum(1.0, np.sqrt(COMMON / log_uniform(V)))  # (V,)
            self.register_buffer("rareness", torch.from_numpy(rareness).float(), persistent=False)

    def forward(
        self, batch: LmBatch, state: BiLmState, lesson: Lesson | None = None
    ) -> tuple[Tensor, Tensor, BiLmState]:
        """The summed losses of the next words and of words ahead; the state after the window."""
        s = self.settings
        dropout = s.dropout if self.training else 0.0
        vectors = self.token_vectors(batch)  # (U, P)
        x = F.embedding(batch.index, vectors)  # (2, T, B, P)
        if s.word_dropout and self.training:
            is_read = torch.rand(x.shape[:3], device=x.device) >= s.word_dropout  # (2, T, B)
            x = x * is_read.unsqueeze(-1)
        top, state = self.read(x, restarted(state, batch.keeps), dropout)  # (2, T, B, P)
        hidden = F.dropout(top, dropout)  # (2, T, B, P)
        loss = self.loss(hidden, batch.targets, batch.counts, batch.negatives, lesson)
        return loss, self.loss_ahead(hidden, batch) if s.ahead else loss.new_zeros(()), state

    def read(self, x: Tensor, state: BiLmState, dropout: float) -> tuple[Tensor, BiLmState]:
        """The top layer (2, T, B, P) and the state after it, by a CUDA graph if there is one."""
        parts = (state.forward.h, state.forward.c, state.backward.h, state.backward.c)
        if self._graph and self.training:
            top, fh, fc, bh, bc = self._graph[0](x, *parts)
        else:
            top, fh, fc, bh, bc = self._reader(dropout)(x, *parts)
        return top, BiLmState(LstmState(fh, fc), LstmState(bh, bc))

    def capture(self, window: int, rows: int) -> None:
        """Record a training step's LSTMs as a CUDA graph, which saves thousands of launches."""
        config, like = self.bilm.config.lstm, self.head.weight
        P, H, L = config.output_width, config.cell_width, config.num_layers
        x = like.new_zeros(2, window, rows, P, dtype=torch.bfloat16).requires_grad_()
        h, c = like.new_zeros(L, rows, P), like.new_zeros(L, rows, H)
        reader, sample = self._reader(self.settings.dropout), (x, h, c, h.clone(), c.clone())
        # Its gradients come from the stream it is recorded on, as they should; torch would warn.
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
        self._graph = [torch.cuda.make_graphed_callables(reader.train(), sample)]

    def _reader(self, dropout: float) -> PairReader:
        return PairReader(self.bilm.forward_lstm, self.bilm.backward_lstm, dropout)

    def token_vectors(self, batch: LmBatch) -> Tensor:
        """Token vectors of the batch's distinct words, (U, P), in the dtype of the arithmetic."""
        if self.settings.train_tokens is False:
            return self.kept_vectors(batch.words)
        cnn, table = self.bilm.token_layer, self.spelling[0]
        assert isinstance(cnn, CharCnn)
        with self.arithmetic():
            groups = (table[batch.words[a:b], :columns] for a, b, columns in batch.chunks)
            return torch.cat([cnn.from_short(ids) for ids in groups])

    @torch.no_grad()
    def kept_vectors(self, words: Tensor) -> Tensor:
        """Token vectors (U, P) of words by a CNN that is not trained: each is computed once."""
        table = self.spelling[0]
        if not self._vectors:
            unknown = torch.full((len(table), self.head.weight.shape[1]), float("nan"))
            self._vectors = [unknown.to(table.device)]  # (words, P)
        [vectors] = self._vectors
        missing = words[vectors[words, 0].isnan()]
        with self.arithmetic():
            for part in torch.split(missing, WORDS_AT_ONCE):
                vectors[part] = self.bilm.token_layer(table[part]).to(vectors.dtype)
        return vectors[words]

    def loss_ahead(self, hidden: Tensor, batch: LmBatch) -> Tensor:
        """The summed loss of a word further ahead, at the same distance in the whole batch."""
        away = int(torch.randint(1, self.settings.reach, ()))  # beyond the next word
        with self.arithmetic():
            mapped = hidden[:, :-away].flatten(1, 2) @ self.ahead  # (2, (T - away) B, P)
        targets = batch.targets[:, away:]  # (2, T - away, B)
        weights = batch.counts[:, away:] * self.rareness[targets]
        return self.loss(mapped.to(hidden.dtype), targets, weights, batch.negatives)

    def loss(
        self,
        hidden: Tensor,
        targets: Tensor,
        weights: Tensor,
        negatives: Tensor | None,
        lesson: Lesson | None = None,
    ) -> Tensor:
        """The weighted sum of losses of (..., P), against the sample or the full vocabulary."""
        hidden, targets = hidden.flatten(0, -2), targets.flatten()  # (N, P), (N,)
        weights = weights.flatten()
        if lesson is not None:
            lesson = lesson._replace(hidden=lesson.hidden.flatten(0, -2))  # (N, P')
        if negatives is None or self.log_chances is None:
            with self.arithmetic():
                return (self.head.losses(hidden, targets, lesson) * weights).sum()
        if has_triton(hidden.device):
            return self._fast_sampled_loss(hidden, targets, weights, negatives, lesson)
        if hidden.device.type == "cpu" and uses_fast_kernels() and lesson is None:
            return self._cpu_sampled_loss(hidden, targets, weights, negatives)
        sample = Sample(negatives, self.log_chances)
        return (self.head.sampled_losses(hidden, targets, sample, lesson) * weights).sum()

    def _fast_sampled_loss(
        self,
        hidden: Tensor,
        targets: Tensor,
        weights: Tensor,
        negatives: Tensor,
        lesson: Lesson | None,
    ) -> Tensor:
        from relmo.kernels.triton_softmax import Taught, sampled_loss

        assert self.log_chances is not None
        column = torch.full_like(self.log_chances, -1, dtype=torch.int32)  # (V,)
        column[negatives] = torch.arange(len(negatives), device=hidden.device, dtype=torch.int32)
        taught = None
        if lesson is not None:
            theirs = self._looked_up(lesson.head, lesson.hidden, targets, negatives)
            taught = Taught(*theirs, lesson.weight)
        mine = self._looked_up(self.head, hidden, targets, negatives)
        return sampled_loss(*mine, column[targets], weights, taught)

    def _looked_up(
        self, head: LmHead, hidden: Tensor, targets: Tensor, negatives: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """What `sampled_loss` wants of a softmax: what is said, targets, negatives, their biases.

        Tensor cores need aligned sizes: the sample is padded with word 0, at zero probability.
        """
        weight = head.weight.to(hidden.dtype)  # (V, P)
        assert self.log_chances is not None
        bias = (head.bias - self.log_chances).unsqueeze(1)  # (V, 1)
        missing = -len(negatives) % ALIGNMENT
        padded = F.pad(negatives, (0, missing))  # (S,)
        negative_bias = F.embedding(negatives, bias).squeeze(1)
        return (
            hidden, F.embedding(targets, weight), F.embedding(targets, bias).squeeze(1),
            F.embedding(padded, weight), F.pad(negative_bias, (0, missing), value=MASKED),
        )  # fmt: skip

    def _cpu_sampled_loss(
        self, hidden: Tensor, targets: Tensor, weights: Tensor, negatives: Tensor
    ) -> Tensor:
        assert self.log_chances is not None
        rows = torch.cat([targets, negatives])  # looked up at once: one dense gradient of the table
        weight = F.embedding(rows, self.head.weight)
        bias = F.embedding(rows, self.head.bias.unsqueeze(1)).squeeze(1) - self.log_chances[rows]
        column = torch.full_like(self.log_chances, -1, dtype=torch.int32)  # (V,)
        column[negatives] = torch.arange(len(negatives), dtype=torch.int32)
        N = len(targets)
        return cpu_training.sampled_loss(
            hidden, weight[:N], bias[:N], weight[N:], bias[N:], column[targets], weights
        )

    def arithmetic(self) -> AbstractContextManager[object]:
        """bfloat16 for matrix products on a GPU, float32 on a CPU; weights are always float32."""
        if self.head.weight.is_cuda:
            return torch.autocast("cuda", torch.bfloat16)
        return nullcontext()


def restarted(state: BiLmState, keeps: Tensor) -> BiLmState:
    """The state with zeros in the rows that restart; keeps (2, B) is 0 there, forward, backward."""
    forward, backward = keeps.unsqueeze(-1)  # each (B, 1)
    return BiLmState(
        LstmState(state.forward.h * forward, state.forward.c * forward),
        LstmState(state.backward.h * backward, state.backward.c * backward),
    )


class PairReader(nn.Module):
    """`read_windows` with tensors in and tensors out, as a CUDA graph requires."""

    def __init__(self, forward_lstm: LstmStack, backward_lstm: LstmStack, dropout: float) -> None:
        super().__init__()
        self.forward_lstm, self.backward_lstm, self.dropout = forward_lstm, backward_lstm, dropout

    def forward(
        self, x: Tensor, fh: Tensor, fc: Tensor, bh: Tensor, bc: Tensor
    ) -> tuple[Tensor, ...]:
        """The top layer (2, T, B, P), and h and c of both directions after it."""
        state = BiLmState(LstmState(fh, fc), LstmState(bh, bc))
        layers, state = read_windows(self.forward_lstm, self.backward_lstm, x, state, self.dropout)
        f, b = state.forward, state.backward
        return layers[-1], f.h, f.c, b.h, b.c
