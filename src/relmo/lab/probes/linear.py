"""A linear classifier on vectors: multinomial logistic regression, its L2 strength chosen on dev.

All strengths are trained in parallel on the same batches, so that choosing costs little more than
training one: loading the vectors takes longer than classifying them.

N examples, M mixed layers (1 for a single layer), D width, K labels, S strengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relmo.config import Count, CountOrZero, NonNegative, Positive, Settings
from relmo.errors import ConfigError
from relmo.nn.scalar_mix import ScalarMix
from relmo.runtime.host import one_thread
from relmo.types import Layers

Features = NDArray[np.float16] | NDArray[np.float32]
"""(N, M, D)."""
Labels = NDArray[np.int64]
"""(N,)."""
PREDICT_ROWS = 8192
"""Examples converted to float32 at a time."""


@dataclass(frozen=True, kw_only=True)
class LinearSettings(Settings):
    """How a linear probe is trained: Adam, with a learning rate that decays linearly to zero."""

    strengths: tuple[NonNegative, ...] = (0.0, 1e-5, 1e-4, 1e-3)
    """The best on the dev part is chosen; the loss is cross-entropy + strength * |W|^2."""
    epochs: Count = 12
    batch: Count = 512
    rate: Positive = 2e-3
    seed: CountOrZero = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.strengths:
            raise ConfigError("strengths is empty; give at least one L2 strength")


class LinearProbe(NamedTuple):
    """A trained classifier, with the strength that was best on the dev part."""

    model: _Classifiers
    chosen: int
    strength: float
    dev_accuracy: float
    """In percent."""

    def predict(self, features: Features) -> Labels:
        """The most likely label of each example, (N,)."""
        found: Labels = self.model.predict(features)[self.chosen]
        return found

    def shares(self) -> list[float]:
        """The weight of each layer in the mix; the weights sum to one."""
        mix = self.model.mixes[self.chosen]
        assert isinstance(mix, ScalarMix)
        return mix.weights().tolist()


def fit_linear(
    train: tuple[Features, Labels],
    dev: tuple[Features, Labels],
    num_labels: int,
    settings: LinearSettings | None = None,
) -> LinearProbe:
    """Train a classifier for each strength, choose the best on dev; ties go to the stronger.

    Features are standardized by the mean and standard deviation of the training part. For M > 1
    layers, a `ScalarMix` of the standardized layers is learned with the classifier.
    """
    settings = settings or LinearSettings()
    model = _Classifiers(train[0], num_labels, len(settings.strengths), settings.seed)
    with one_thread():  # for products this small, threads cost more than they gain
        _train(model, *train, settings)
    right = (model.predict(dev[0]) == dev[1]).mean(-1)  # (S,)
    order = np.argsort(settings.strengths)
    chosen = int(max(order, key=lambda s: (right[s], settings.strengths[s])))
    return LinearProbe(model, chosen, settings.strengths[chosen], 100 * float(right[chosen]))


class _Classifiers(nn.Module):
    """S classifiers of the same vectors, each with its own mix of layers."""

    def __init__(self, features: Features, num_labels: int, num_strengths: int, seed: int) -> None:
        super().__init__()
        _, M, D = features.shape
        mean = features.mean(0, dtype=np.float64)  # accumulates in float64, without a copy
        squares = np.einsum("nmd,nmd->md", features, features, dtype=np.float64) / len(features)
        deviation = np.sqrt(np.maximum(squares - mean**2, 0))
        deviation[deviation < 1e-6] = 1.0  # a constant feature carries no information
        self.mean = torch.from_numpy(mean).float()  # (M, D)
        self.deviation = torch.from_numpy(deviation).float()  # (M, D)
        initial = torch.randn(D, num_labels, generator=torch.Generator().manual_seed(seed)) * 0.01
        self.weight = nn.Parameter(initial.repeat(num_strengths, 1, 1))  # (S, D, K)
        self.bias = nn.Parameter(torch.zeros(num_strengths, 1, num_labels))
        self.mixes = nn.ModuleList(ScalarMix(M, trainable=M > 1) for _ in range(num_strengths))

    def forward(self, features: Tensor) -> Tensor:
        """Scores (S, N, K) of standardized features (N, M, D)."""
        N, M, _ = features.shape
        if M == 1:
            mixed = features[:, 0].expand(len(self.mixes), -1, -1)  # (S, N, D)
        else:
            layers = Layers(features.transpose(0, 1)[:, None], torch.ones(1, N))  # (M, 1, N, D)
            mixed = torch.cat([mix(layers) for mix in self.mixes])  # (S, N, D)
        return torch.baddbmm(self.bias, mixed, self.weight)  # (S, N, K)

    def standardize(self, features: Features) -> Tensor:
        return (torch.from_numpy(features).float() - self.mean) / self.deviation

    @torch.no_grad()
    def predict(self, features: Features) -> Labels:
        """The most likely label by each classifier, (S, N)."""
        starts = range(0, max(1, len(features)), PREDICT_ROWS)
        parts = (self.standardize(features[start : start + PREDICT_ROWS]) for start in starts)
        labels: Labels = torch.cat([self(part).argmax(-1) for part in parts], 1).numpy()  # (S, N)
        return labels


def _train(
    model: _Classifiers, features: Features, labels: Labels, settings: LinearSettings
) -> None:
    strengths = torch.tensor(settings.strengths)
    wanted = torch.from_numpy(labels)
    order = np.random.default_rng(settings.seed)
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), settings.rate)
    per_epoch = -(-len(labels) // settings.batch)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, settings.epochs * per_epoch)
    for _ in range(settings.epochs):
        for rows in np.array_split(order.permutation(len(labels)), per_epoch):
            scores = model(model.standardize(features[rows]))  # (S, B, K)
            S, B, _ = scores.shape
            target = wanted[rows].expand(S, B)
            loss = S * cross_entropy(scores.flatten(0, 1), target.flatten())
            loss = loss + (strengths * model.weight.square().sum((1, 2))).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
