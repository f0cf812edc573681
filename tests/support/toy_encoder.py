"""A tiny text encoder with random weights, for tests of its arithmetic."""

import torch
from torch import nn

from relmo import Elmo
from relmo.tasks.encoder.data import TextPair, read_text
from relmo.tasks.encoder.model import EncoderSettings
from relmo.tasks.encoder.task import EncoderTask
from relmo.tasks.inputs import Inputs, InputSettings, make_elmo_layer
from relmo.tasks.labelled import BatchSettings
from relmo.tasks.output_embeddings import OutputEmbeddings
from relmo.tasks.static_vectors import random_vectors

KNOWN = ["Mira", "sings", "the", "river", "bank", "."]
"""Words that have a static vector."""


def make_encoder(
    elmo: Elmo, layers: str = "mix", *, static_width: int = 6, size: int = 4, train=(), **settings
) -> EncoderTask:
    """An encoder upon a model; it reads the rows of its softmax, if it has one."""
    torch.manual_seed(0)
    input_settings = InputSettings(layers=layers, elmo_dropout=0.0, output_embeddings=elmo.has_lm)
    layer = make_elmo_layer(elmo, input_settings)
    output = OutputEmbeddings(elmo) if elmo.has_lm else None
    static = random_vectors(KNOWN, static_width)
    inputs = Inputs(static, None, layer, torch.device("cpu"), output)
    task = EncoderTask(
        EncoderSettings(**{"width": 8, **settings}),
        {},
        inputs,
        inputs.make_module(input_settings),
        train,
        batches=BatchSettings(size=size),
    )
    with torch.no_grad():
        for weight in (task.net.attention.weight, layer.mixes[0].s):
            nn.init.normal_(weight, std=0.5)
        layer.mixes[0].gamma.fill_(0.7)
    task.model.eval()
    return task


def pair(query: str, positive: str, *negatives: str, kind: str = "") -> TextPair:
    """A pair of texts."""
    return TextPair(read_text(query), read_text(positive), tuple(map(read_text, negatives)), kind)
