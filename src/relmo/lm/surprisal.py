"""Surprisal: how unexpected each word of a text is, in bits, as psycholinguistics counts it.

    for sentence in elmo.lm.surprisal(["The horse raced past the barn fell ."]):
        for word in sentence:
            print(word.token, word.surprisal, word.entropy, word.known)

A word is predicted from what stands before it (`surprisal`), after it (`surprisal_backward`), and
by both together (`surprisal_both`: the product of the two predictions, renormalized). The fields of
a word are the columns of `relmo surprisal`'s table.

A word outside the vocabulary takes the bits of `<UNK>` and of its letters (`text/letters.py`).
Where words come as regions with punctuation attached, as in reading-time data, each region is split
by the model's own tokenizer and its tokens' bits are added up: nothing has to be aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError
from relmo.lm.scorer import Scorer, TokenIds, WordSizes, sentences_of
from relmo.progress import working
from relmo.text.batches import plan_batches
from relmo.text.tokenize import Sentence, Tokenizer, WhitespaceTokenizer, tokenized

Context = Literal["sentence", "document"] | int
"""What a word is predicted from: its sentence, its document, or so many words around it."""
READ_TOKENS = {"cpu": 4096, "cuda": 256 * 1024}
"""Padded tokens whose predictions are kept until both directions have made them."""
MANY_WORDS = 2000
"""More words than these show progress."""


class Region(NamedTuple):
    """What one row is about: a word, or several tokens written together."""

    text: str
    tokens: Sequence[str]


class WordSurprisal(NamedTuple):
    """A word of a text: what it is, and how unexpected; all logarithms are to base 2."""

    sentence_id: int
    """From 0, counted through all sentences."""
    token_id: int
    """From 0 in the sentence."""
    token: str
    surprisal: float
    """-log p(word | what stands before it)."""
    surprisal_backward: float
    """-log p(word | what stands after it)."""
    surprisal_both: float
    """-log of the product of the two predictions, renormalized."""
    entropy: float
    """Of what may come at its place, given what stands before it."""
    log_frequency: float
    """Log of the word's share of the training text; NaN if the model does not store counts."""
    length: int
    """Its characters."""
    known: bool
    """Whether it is in the vocabulary; else its letters are counted."""


def check_context(context: Context) -> None:
    """Raise ConfigError for what is no context."""
    is_count = isinstance(context, int) and not isinstance(context, bool) and context >= 1
    if context not in ("sentence", "document") and not is_count:
        raise ConfigError(
            f"context must be 'sentence', 'document' or a number of words ≥ 1, got {context!r}"
        )


def split_regions(
    sentences: Iterable[Sentence], tokenizer: Tokenizer, *, attached: bool = False
) -> Iterator[list[Region]]:
    """The regions of each sentence: by default its tokens, each alone.

    Args:
        sentences: token lists, or strings.
        tokenizer: splits strings.
        attached: items of a token list, and parts of a string between spaces, have punctuation
            attached or are split otherwise than the model's: the tokenizer splits each further.
    """
    whole = WhitespaceTokenizer() if attached else tokenizer
    for words in tokenized(sentences, whole):
        if attached:
            parts = ([token.text for token in tokenizer.tokens(word)] for word in words)
            yield [Region(word, own or [word]) for word, own in zip(words, parts, strict=True)]
        else:
            yield [Region(word, [word]) for word in words]


def surprisal_rows(
    scorer: Scorer,
    texts: Sequence[TokenIds],
    documents: Sequence[Sequence[Sequence[Region]]],
    context: Context,
    first_id: int = 0,
) -> Iterator[list[list[WordSurprisal]]]:
    """Rows of each sentence, document by document.

    Args:
        scorer: of the texts.
        texts: ids of each document.
        documents: the same as sentences of regions.
        context: what a word is predicted from.
        first_id: number of the first sentence.
    """
    said, at = _readings(scorer, texts, context), 0
    for text, document in zip(texts, documents, strict=True):
        words = text[text > 1]
        measures = _measures(words, said[:, at : at + len(words)], scorer.sizes)
        at, first, rows = at + len(words), 0, []
        for number, sentence in enumerate(document, first_id):
            past = first + sum(len(region.tokens) for region in sentence)
            rows.append(_sentence_rows(number, sentence, measures[:, first:past]))
            first = past
        yield rows
        first_id += len(document)


def _readings(scorer: Scorer, texts: Sequence[TokenIds], context: Context) -> NDArray[np.float64]:
    """What the language models say of all words, in order, (4, words): see `Readings`."""
    if context == "sentence":
        texts = [sentence for text in texts for sentence in sentences_of(text)]
    found: dict[int, NDArray[np.float64]] = {-1: np.empty((4, 0))}
    words = sum(int((text > 1).sum()) for text in texts)
    with working("words scored", words, show=words > MANY_WORDS) as work:
        for batch in plan_batches(list(map(len, texts)), READ_TOKENS[scorer.softmax.device.type]):
            chosen = [texts[i] for i in batch]
            if isinstance(context, int):
                said = scorer.readings_within(chosen, context)
            else:
                said = scorer.readings(chosen)
            found.update(zip(batch, said, strict=True))
            work.advance(sum(each.shape[1] for each in said))
    return np.concatenate([found[number] for number in range(-1, len(texts))], axis=1)


def _measures(words: TokenIds, nats: NDArray[np.float64], sizes: WordSizes) -> NDArray[np.float64]:
    """Of N words, from what was said of them, (4, N), in bits, letters of unknown words included.

    (6, N): surprisal forward, backward and by both, entropy, log frequency, 1 if the word is known.
    """
    rows, letters = sizes.rows[words], sizes.spelling(words)
    bits = nats / np.log(2)
    frequency = sizes.lexicon.log_frequencies[rows] - letters
    return np.vstack([bits[:3] + letters, bits[3], frequency, rows != sizes.unknown])


def _sentence_rows(
    number: int, sentence: Sequence[Region], words: NDArray[np.float64]
) -> list[WordSurprisal]:
    """One row per region of several tokens' measures (6, N): their bits add up.

    A region's entropy is that of its first token, its frequency that of its rarest: a full stop
    says nothing of the word before it.
    """
    sizes = np.array([len(region.tokens) for region in sentence], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    if not len(starts):
        return []
    bits = np.add.reduceat(words[:3], starts, axis=1)  # (3, regions)
    frequency, known = np.minimum.reduceat(words[4:], starts, axis=1)
    columns = np.vstack([bits, words[3, starts], frequency]).T.tolist()
    return [
        WordSurprisal(number, token, text, *values, len(text), bool(is_known))  # type: ignore[call-arg]
        for token, ((text, _), values, is_known) in enumerate(
            zip(sentence, columns, known, strict=True)
        )
    ]
