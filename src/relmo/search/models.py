"""The model of an index, a trained encoder or an ELMo, and the passage encoder made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from contextlib import suppress

from relmo.elmo import Elmo
from relmo.errors import ConfigError, ModelNotFound
from relmo.search import trained
from relmo.search.encoder import PassageEncoder, sample_passages
from relmo.search.settings import IndexSettings
from relmo.search.trained import TrainedEncoder
from relmo.tasks.encoder.text_encoder import TextEncoder
from relmo.tasks.predictor import load
from relmo.tasks.run import TaskCard
from relmo.weights.find import UNTRAINED, find_model, is_task_model

Model = Elmo | TextEncoder
AnyEncoder = PassageEncoder | TrainedEncoder
OF_ELMO = ("layer", "weighting", "isotropy")
"""Settings that say how an ELMo's layers become a vector; a trained encoder knows it."""


def open_model(name: str, elmo: Elmo | None = None) -> Model:
    """The model with this name or folder; a trained encoder reads with `elmo` if it is its own."""
    if name == UNTRAINED or not is_task_model(folder := find_model(name)):
        return Elmo.from_pretrained(name)
    needed = TaskCard.read(folder).elmo
    is_its = elmo is not None and needed and needed["fingerprint"] == elmo.fingerprint("float32")
    found = load(name, elmo=elmo if is_its else None)
    if not isinstance(found, TextEncoder):
        raise ConfigError(
            f"{name} gives no vectors of texts; choose an encoder such as relmo-en-search, or an "
            f"ELMo"
        )
    return found


def model_of(settings: IndexSettings, given: Model | None) -> Model:
    """The model of an index, or the one that was given; a given ELMo may be its encoder's."""
    if given is None:
        return open_model(settings.model)
    if isinstance(given, TextEncoder) or given.fingerprint() == settings.fingerprint:
        return given
    with suppress(ModelNotFound):  # what was given is then refused for what it is
        if settings.model != UNTRAINED and is_task_model(find_model(settings.model)):
            return open_model(settings.model, given)
    return given


def fit_encoder(
    model: Model, settings: IndexSettings, passages: Iterable[str], show_progress_bar: bool = False
) -> tuple[AnyEncoder, IndexSettings]:
    """The encoder of a new index, fitted to a sample of its passages, and its settings."""
    usual = IndexSettings()
    if isinstance(model, TextEncoder):
        for name in OF_ELMO:
            if getattr(settings, name) != getattr(usual, name):
                raise ConfigError(
                    f"{name} is for an ELMo, {model.name} is a trained encoder; name an ELMo with "
                    f"--model, such as {model.elmo.config.name}"
                )
        sample = sample_passages(passages, trained.SAMPLE_PASSAGES)
        encoder: AnyEncoder = TrainedEncoder.fit(model, settings, sample)
    else:
        if settings.model == usual.model:  # an ELMo was given instead
            settings = dataclasses.replace(settings, model=model.config.name or usual.model)
        settings = dataclasses.replace(settings, latent=0)
        sample = sample_passages(passages)
        encoder = PassageEncoder.fit(model, settings, sample, show_progress_bar)
    fingerprint, width = model.fingerprint(), encoder.width
    return encoder, dataclasses.replace(settings, fingerprint=fingerprint, width=width)


def read_encoder(model: Model, settings: IndexSettings, data: bytes) -> AnyEncoder:
    """The encoder of an index, from what it stores of it."""
    if isinstance(model, TextEncoder):
        return TrainedEncoder.from_bytes(model, settings, data)
    return PassageEncoder.from_bytes(model, settings, data)
