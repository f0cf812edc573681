"""A model's two language models, where it carries its softmax: score, fill in, measure.

elmo.lm.score([["The", "bank", "raised", "rates", "."]])
elmo.lm.substitutes(["The", "bank", "raised", "rates", "."], 1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.errors import ConfigError, TextError
from relmo.nn.bilm import BiLM
from relmo.nn.lm_head import LmHead, log_uniform
from relmo.runtime.pair import read_pair
from relmo.scoring import Perplexity, Scorer, ScoreStart, Text
from relmo.text.characters import BEGIN_SENTENCE, END_SENTENCE
from relmo.text.lexicon import UNKNOWN, Lexicon
from relmo.text.tokenize import check_sentences


@dataclass(frozen=True)
class Score:
    """How likely a sentence is, in natural logarithms."""

    forward: NDArray[np.float64]
    """(T + 1,) of each word given those before it, and of the sentence's end."""
    backward: NDArray[np.float64]
    """(T + 1,) of the sentence's beginning, and of each word given those after it."""

    @property
    def total(self) -> float:
        """Log-probability of the sentence: the mean of the two directions."""
        return float(self.forward.sum() + self.backward.sum()) / 2


class LanguageModel:
    """Both directions with their shared softmax.

    Args:
        bilm: the model.
        head: its softmax.
        lexicon: the softmax's words.
        token_vectors: words -> (U, P).
    """

    def __init__(
        self,
        bilm: BiLM,
        head: LmHead,
        lexicon: Lexicon,
        token_vectors: Callable[[Sequence[str]], Tensor],
    ) -> None:
        self.bilm, self.head, self.lexicon = bilm, head.eval(), lexicon
        self.token_vectors = token_vectors

    def score(self, sentences: Sequence[Sequence[str]]) -> list[Score]:
        """Log-probabilities of each sentence's words, from the model's start state."""
        check_sentences(sentences)
        texts, scorer = self._numbered([[sentence] for sentence in sentences])
        found = []
        for text in texts:  # one by one: a sentence's score depends on that sentence alone
            losses, _ = scorer.losses([text], self.bilm.start)
            found.append(Score(-losses[0, :, 0], -losses[1, ::-1, 0]))
        return found

    def perplexity(
        self, documents: Iterable[Sequence[Sequence[str]]], start: ScoreStart = "carried"
    ) -> Perplexity:
        """Perplexity of documents, each a list of sentences, each a list of words.

        A sentence without words is left out, and so is a boundary that stands among the words.
        """
        if start not in get_args(ScoreStart):
            raise ConfigError(f"start is {start!r}; choose {', '.join(get_args(ScoreStart))}")
        if start == "stored" and not self.bilm.config.has_start_state:
            raise ConfigError("this model has no stored start state; choose 'zero' or 'carried'")
        texts, scorer = self._numbered(map(_without_boundaries, documents))
        if not any(map(len, texts)):
            raise TextError("there are no words to score")
        return scorer.perplexity(texts, start)

    @torch.no_grad()
    def substitutes(
        self, sentence: Sequence[str], position: int, k: int = 10
    ) -> list[tuple[str, float]]:
        """The k words that fit best at a position, by what stands before it and after it.

        The word that stands there is not looked at. The score of a word is
        log p(word | left) + log p(word | right) - log p(word): what both sides say together, where
        the last, by the word's rank, keeps words that are merely frequent from being counted twice.
        """
        check_words(sentence)
        if k < 1:
            raise ConfigError(f"k is {k}; ask for 1 word or more")
        if not 0 <= position < len(sentence):
            raise TextError(f"position {position} of {len(sentence)} words; count from 0")
        bounded = [BEGIN_SENTENCE, *sentence, END_SENTENCE]
        before, after = bounded[: position + 1], bounded[position + 2 :][::-1]
        scores = self._next_word(before, 0) + self._next_word(after, 1)  # (V,)
        scores -= torch.from_numpy(np.log(log_uniform(len(scores)))).to(scores)
        for special in (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN):
            scores[int(self.lexicon.rows([special])[0])] = float("-inf")
        best = scores.topk(min(k, len(scores) - 3))
        rows = best.indices.tolist()
        return [(self.lexicon.words[i], s) for i, s in zip(rows, best.values.tolist(), strict=True)]

    def _next_word(self, words: Sequence[str], direction: int) -> Tensor:
        """Log-probabilities (V,) of what one direction expects after words in its reading order."""
        vectors = self.token_vectors(words)  # (T, P)
        x = vectors.unsqueeze(1).expand(2, -1, 1, -1)  # (2, T, 1, P), the other one is not used
        stacks = self.bilm.forward_lstm, self.bilm.backward_lstm
        layers, _ = read_pair(*stacks, x, self.bilm.start_state(1))
        log_probabilities = self.head.log_probabilities(layers[-1][direction, -1])  # (1, V)
        return log_probabilities[0]

    def _numbered(self, documents: Iterable[Sequence[Sequence[str]]]) -> tuple[list[Text], Scorer]:
        """Documents as ids of their own distinct words, and a scorer of these ids."""
        id_of = {BEGIN_SENTENCE: 0, END_SENTENCE: 1, UNKNOWN: 2}
        texts = []
        for document in documents:
            ids: list[int] = []
            for sentence in document:
                check_words(sentence)
                ids += [0, *(id_of.setdefault(word, len(id_of)) for word in sentence), 1]
            texts.append(np.array(ids, dtype=np.int64))
        words = list(id_of)
        rows = self.lexicon.rows(words)
        scorer = Scorer(
            self.bilm,
            self.head,
            lambda ids: self.token_vectors([words[i] for i in ids]),
            lambda ids: rows[ids],
        )
        return texts, scorer


def check_words(sentence: Sequence[str]) -> None:
    """Raise TextError for a string in the place of its words: it would be read by letters."""
    if isinstance(sentence, str):
        raise TextError(f"a list of words is needed and a string came, {sentence[:40]!r}; split it")


def _without_boundaries(document: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """A document as the tokenised corpus of a training holds it."""
    sentences: list[Sequence[str]] = []
    for sentence in document:
        check_words(sentence)
        if words := [word for word in sentence if word not in (BEGIN_SENTENCE, END_SENTENCE)]:
            sentences.append(words)
    return sentences
