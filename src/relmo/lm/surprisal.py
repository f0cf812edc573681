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

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError
from relmo.lm.scorer import Scorer, TokenIds, WordSizes, sentences_of
from relmo.progress import working
from relmo.runtime.host import no_collection
from relmo.text.tokenize import Sentence, Tokenizer, check_sentences, checked_words, tokenized

Context = Literal["sentence", "document"] | int
"""What a word is predicted from: its sentence, its document, or so many tokens around it."""
READ_TOKENS = {"cpu": 4096, "cuda": 256 * 1024}
"""Padded tokens whose predictions are kept until both directions have made them."""
MANY_WORDS = 2000
"""More words than these show progress."""
REGION = re.compile(r"[^ \t\r\n]+")
"""A region of a string. Other white space is part of it, such as the no-break space of `10 km`."""


class SplitSentence(NamedTuple):
    """What the rows of a sentence are about: words, or several tokens written together."""

    texts: Sequence[str]
    """Of each region."""
    tokens: Sequence[str]
    """Of all regions, one after the other."""
    sizes: Sequence[int]
    """How many tokens each region has; 0 if it is empty or white space."""


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
    """Whether it is in the vocabulary; else its letters are counted. Of a region: every token."""


def check_context(context: Context) -> None:
    """Raise ConfigError for what is no context."""
    is_count = isinstance(context, int) and not isinstance(context, bool) and context >= 1
    if context not in ("sentence", "document") and not is_count:
        raise ConfigError(
            f"context must be 'sentence', 'document' or a number of tokens ≥ 1, got {context!r}"
        )


def split_regions(
    sentences: Iterable[Sentence], tokenizer: Tokenizer, *, attached: bool = False
) -> Iterator[SplitSentence]:
    """The regions of each sentence: by default its tokens, each alone.

    Args:
        sentences: token lists, or strings.
        tokenizer: splits strings.
        attached: items of a token list, and parts of a string between spaces, have punctuation
            attached or are split otherwise than the model's: the tokenizer splits each further.
            An empty item has no tokens: it is not read.
    """
    if not attached:
        for tokens in tokenized(sentences, tokenizer):
            yield SplitSentence(tokens, tokens, [1] * len(tokens))
        return
    check_sentences(sentences)
    for number, each in enumerate(sentences):
        if isinstance(each, str):
            words: list[str] = REGION.findall(each)
        else:
            words = checked_words(each, number, may_split=True)
        parts = [[token.text for token in tokenizer.tokens(word)] for word in words]
        yield SplitSentence(words, [*chain.from_iterable(parts)], [*map(len, parts)])


def surprisal_rows(
    scorer: Scorer,
    texts: Sequence[TokenIds],
    documents: Sequence[Sequence[SplitSentence]],
    context: Context,
    first_id: int = 0,
) -> Iterator[list[list[WordSurprisal]]]:
    """Rows of each sentence, document by document.

    Args:
        scorer: of the texts.
        texts: ids of each document, without sentences that have no tokens.
        documents: the same as sentences of regions.
        context: what a word is predicted from.
        first_id: number of the first sentence.
    """
    said, at = _readings(scorer, texts, context), 0
    for text, document in zip(texts, documents, strict=True):
        words = text[text > 1]
        measures = _measures(words, said[:, at : at + len(words)], scorer.sizes)
        yield _document_rows(first_id, document, measures)
        at, first_id = at + len(words), first_id + len(document)


def _readings(scorer: Scorer, texts: Sequence[TokenIds], context: Context) -> NDArray[np.float64]:
    """What the language models say of all words, in order, (4, words): see `Readings`."""
    if context == "sentence":
        texts = [sentence for text in texts for sentence in sentences_of(text)]
    texts = [text for text in texts if len(text)]
    ends = np.cumsum([0, *(np.count_nonzero(text > 1) for text in texts)])  # words up to each text
    found = np.empty((4, ends[-1]))
    with working("words scored", ends[-1], show=ends[-1] > MANY_WORDS) as work:
        for batch in scorer.plan(texts, READ_TOKENS):
            chosen = [texts[i] for i in batch]
            if isinstance(context, int):
                said = scorer.readings_within(chosen, context)  # (4, N)
            else:
                said = scorer.readings(chosen)
            places = np.concatenate([np.arange(ends[i], ends[i + 1]) for i in batch])  # (N,)
            found[:, places] = said
            work.advance(len(places))
    return found


def _measures(words: TokenIds, nats: NDArray[np.float64], sizes: WordSizes) -> NDArray[np.float64]:
    """Of N words, from what was said of them, (4, N), in bits, letters of unknown words included.

    (6, N): surprisal forward, backward and by both, entropy, log frequency, 1 if the word is known.
    """
    rows, letters = sizes.rows[words], sizes.spelling(words)
    bits = nats / np.log(2)
    frequency = sizes.lexicon.log_frequencies[rows] - letters
    return np.vstack([bits[:3] + letters, bits[3], frequency, rows != sizes.unknown])


def _document_rows(
    first_id: int, document: Sequence[SplitSentence], words: NDArray[np.float64]
) -> list[list[WordSurprisal]]:
    """One row per region, sentence by sentence, of all tokens' measures (6, N): bits add up.

    A region's entropy is that of its first token, its frequency that of its rarest: a full stop
    says nothing of the word before it. A region without tokens has NaN.
    """
    texts = [*chain.from_iterable(sentence.texts for sentence in document)]
    sizes = np.fromiter(chain.from_iterable(sentence.sizes for sentence in document), np.int64)
    filled = sizes > 0
    starts = (np.cumsum(sizes) - sizes)[filled]
    found = np.full((6, len(sizes)), np.nan)
    found[:3, filled] = np.add.reduceat(words[:3], starts, axis=1)
    found[3, filled] = words[3, starts]
    found[4:, filled] = np.minimum.reduceat(words[4:], starts, axis=1)
    counts = [len(sentence.texts) for sentence in document]
    columns = zip(
        np.repeat(np.arange(first_id, first_id + len(counts)), counts).tolist(),
        chain.from_iterable(map(range, counts)),
        texts,
        *found[:5].tolist(),
        map(len, texts),
        (found[5] > 0).tolist(),
        strict=True,
    )
    rows = map(partial(tuple.__new__, WordSurprisal), columns)
    with no_collection():
        return [[*islice(rows, count)] for count in counts]
