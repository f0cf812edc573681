"""A teacher: a finished model that reads the same windows as the model that is trained.

What it expects at each place is part of the loss (`nn/lm_head.py`, `Lesson`). A small model learns
more from that than from the next words alone: which words could have stood there, and how likely.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from relmo.config import CharCnnConfig
from relmo.errors import ConfigError
from relmo.nn.bilm import zero_state
from relmo.nn.lm_head import Lesson, LmHead
from relmo.tasks.lm.data import LmBatch, Speller
from relmo.tasks.lm.model import LmModel, restarted
from relmo.tasks.lm.settings import LmSettings
from relmo.text.lexicon import Lexicon
from relmo.types import BiLmState
from relmo.weights.tensors import ModelFiles, build_bilm

AS_IT_IS = LmSettings(dropout=0.0, train_tokens=False, train_softmax=False)


class Teacher:
    """Reads windows and says what it expects; its state is carried as the pupil's is.

    Args:
        files: the model, with its softmax.
        words: all words of the corpus.
        rows: streams read in parallel by this process.
        weight: its share of the loss.
        device: where to run.
    """

    def __init__(
        self,
        files: ModelFiles,
        words: Sequence[str],
        rows: int,
        weight: float,
        device: torch.device,
    ) -> None:
        assert files.lexicon is not None
        assert files.lm_head is not None
        assert isinstance(files.config.tokens, CharCnnConfig)
        softmax = files.lm_head()
        head = LmHead(*softmax["weight"].shape)
        head.load_state_dict(softmax)
        spelling = Speller(words, files.config.tokens, device).table
        bilm = build_bilm(ModelFiles(files.config, files.tensors))
        self.model = LmModel(bilm, head, spelling, None, AS_IT_IS).to(device).eval()
        self.model.requires_grad_(False)
        self.state = zero_state(files.config.lstm, rows, like=head.weight)
        self.weight = weight
        self._dtype = torch.bfloat16 if device.type == "cuda" else torch.float32

    @torch.no_grad()
    def read(self, batch: LmBatch) -> Lesson:
        """What it says at each place of a window, (2, T, B, P)."""
        vectors = self.model.kept_vectors(batch.words).to(self._dtype)  # (U, P)
        x = F.embedding(batch.index, vectors)  # (2, T, B, P)
        top: Tensor
        top, self.state = self.model.read(x, restarted(self.state, batch.keeps), 0.0)
        return Lesson(top, self.model.head, self.weight)

    def load_state(self, state: BiLmState) -> None:
        """Read on from a checkpoint."""
        self.state = state


def check_teacher(teacher: ModelFiles, tokenizer: str, init: ModelFiles | None) -> Lexicon:
    """The teacher's vocabulary, which its pupil has, too; ConfigError if it cannot teach.

    Args:
        teacher: the model.
        tokenizer: of the model that is trained.
        init: its initial model, if there is one.
    """
    if teacher.lexicon is None or teacher.lm_head is None:
        raise ConfigError("the teacher has no softmax, so it predicts nothing; give one that has")
    if not isinstance(teacher.config.tokens, CharCnnConfig):
        raise ConfigError("the teacher must be a model of characters")
    if teacher.config.tokenizer != tokenizer:
        raise ConfigError(
            f"the teacher's tokenizer is {teacher.config.tokenizer!r}, the model's {tokenizer!r}; "
            f"they must split text alike: set model.tokenizer"
        )
    theirs = init.lexicon if init is not None and init.lm_head is not None else None
    if theirs is not None and list(theirs.words) != list(teacher.lexicon.words):
        raise ConfigError(
            "the teacher and the initial model have different vocabularies; start from a model "
            "with the same one, or from none"
        )
    return teacher.lexicon
