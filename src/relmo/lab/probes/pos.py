"""Parts of speech by a linear classifier on each single layer (Table 6 of the paper).

The classifier is a multinomial logistic regression whose L2 strength is chosen on the dev part. All
strengths are trained in parallel on the same batches, so that choosing costs little more than
training one: loading the vectors takes longer than classifying them.

N examples, M mixed layers (1 for a single layer), D width, K labels, S strengths.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relmo.config import Count, CountOrZero, NonNegative, Positive, Settings
from relmo.errors import ConfigError
from relmo.lab.probes.inputs import ProbeInputs, ProbeResult, each_reading, every_word
from relmo.nn.scalar_mix import ScalarMix
from relmo.progress import progress
from relmo.runtime.host import one_thread
from relmo.tasks.data_files import PARTS, Part, need_part
from relmo.tasks.ner.data import TaggedSentence, read_conllu
from relmo.types import Layers

MIX, MOST_FREQUENT = "mix", "most_frequent"
SUFFIXES = (".conllu",)
SCORED: tuple[Part, ...] = ("dev", "test")
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


def probe_pos(inputs: ProbeInputs, settings: LinearSettings | None = None) -> ProbeResult:
    """Accuracy of UPOS tags on the dev and the test part, by each reading of the layers.

    The data folder itself has the train, dev and test files, in CoNLL-U.
    """
    files = {part: need_part(inputs.data, part, SUFFIXES) for part in PARTS}
    sentences = {part: read_conllu(path) for part, path in files.items()}
    labels = sorted({tag for sentence in sentences["train"] for tag in sentence.tags})
    gold = {
        part: _label_ids([tag for sentence in found for tag in sentence.tags], labels)
        for part, found in sentences.items()
    }
    used = replace(settings or LinearSettings(), seed=inputs.seed)
    scores: dict[str, float] = {}
    chosen: dict[str, Any] = {"strength": {}, "mix": []}

    def score(part: Part, reading: str, predicted: Labels) -> None:
        accuracy = 100 * float((predicted == gold[part]).mean())
        scores[f"{part}_accuracy_{reading}"] = round(accuracy, 4)

    def fit_and_score(reading: str, features: Mapping[Part, Features]) -> None:
        train, dev = ((features[part], gold[part]) for part in ("train", "dev"))
        probe = fit_linear(train, dev, len(labels), used)
        for part in SCORED:
            score(part, reading, probe.predict(features[part]))
        chosen["strength"][reading] = probe.strength
        if reading == MIX:
            chosen["mix"] = [round(share, 4) for share in probe.shares()]

    for part in SCORED:
        found = most_frequent_tags(sentences["train"], sentences[part])
        score(part, MOST_FREQUENT, _label_ids(found, labels))
    texts = {part: every_word([s.words for s in found]) for part, found in sentences.items()}
    tables = inputs.tables(texts)
    for reading, features in each_reading(tables):
        fit_and_score(reading, {part: values[:, None] for part, values in features.items()})
    fit_and_score(MIX, tables)
    if inputs.vectors is not None:
        static = inputs.static(texts, tables)
        fit_and_score("static", {part: values[:, None] for part, values in static.items()})
    counts = {p: {"sentences": len(sentences[p]), "words": len(gold[p])} for p in PARTS}
    facts = {**asdict(used), "labels": len(labels), **chosen}
    return ProbeResult(inputs.describe(counts, files.values()), facts, scores)


def most_frequent_tags(
    train: Sequence[TaggedSentence], sentences: Sequence[TaggedSentence]
) -> list[str]:
    """The most frequent tag of each word in training; of all words, for a word unseen there."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    overall = _most_frequent(sum(counts.values(), Counter[str]()))
    best = {word: _most_frequent(found) for word, found in counts.items()}
    return [best.get(word, overall) for s in sentences for word in s.words]


def _label_ids(tags: Sequence[str], labels: Sequence[str]) -> Labels:
    """Ids of tags; -1 for a tag unseen in training, which no probe can predict."""
    ids = {label: number for number, label in enumerate(labels)}
    return np.array([ids.get(tag, -1) for tag in tags], dtype=np.int64)


def _most_frequent(counts: Counter[str]) -> str:
    """The most frequent tag; ties are broken alphabetically."""
    return min(counts, key=lambda tag: (-counts[tag], tag))


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
    settings: LinearSettings,
) -> LinearProbe:
    """Train a classifier for each strength, choose the best on dev; ties go to the stronger.

    Features are standardized by the mean and standard deviation of the training part. For M > 1
    layers, a `ScalarMix` of the standardized layers is learned with the classifier.
    """
    model = _Classifiers(train[0], num_labels, len(settings.strengths), settings.seed)
    with one_thread():  # for products this small, threads cost more than they gain
        model.fit(*train, settings)
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
        self.bias = nn.Parameter(torch.zeros(num_strengths, 1, num_labels))  # (S, 1, K)
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

    def fit(self, features: Features, labels: Labels, settings: LinearSettings) -> None:
        """Train all classifiers on the same batches."""
        strengths, wanted = torch.tensor(settings.strengths), torch.from_numpy(labels)  # (S,), (N,)
        order, per_epoch = np.random.default_rng(settings.seed), -(-len(labels) // settings.batch)
        trained = (p for p in self.parameters() if p.requires_grad)
        optimizer = torch.optim.Adam(trained, settings.rate)
        steps = settings.epochs * per_epoch
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
        batches = (
            rows
            for _ in range(settings.epochs)
            for rows in np.array_split(order.permutation(len(labels)), per_epoch)
        )
        for rows in progress(batches, steps, "steps of a classifier", show=True):
            scores = self(self.standardize(features[rows]))  # (S, B, K)
            target = wanted[rows].expand(len(strengths), -1)  # (S, B)
            loss = len(strengths) * cross_entropy(scores.flatten(0, 1), target.flatten())
            loss = loss + (strengths * self.weight.square().sum((1, 2))).sum()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
