"""A tokenized corpus on disk, built once and memory-mapped afterwards.

    words.txt      every distinct word, most frequent first, after <S>, </S>, <UNK>: a word's line
                   number is its id, and the first V lines are the vocabulary of a softmax of V
                   words. A document counts a word at most three times: a name that fills one
                   document is not a common word
    counts.u64     number of occurrences of each word in the training part
    train.u32      ids of all sentences, each between <S> and </S>, document after document
    train.docs     offset of each document, and the end
    held_out.*     the same for documents held out from training
    *.chars        characters of each document, line ends included
    SHA256SUMS     checksums of these files, verified when the cache is opened
    meta.json      settings and checksums of the text; the folder is named by their hash

Documents are held out by a hash of their text and a seed, so a document is in the same part in
every run and every corpus. Where that would leave a part empty, as in a text of few documents,
blocks of lines are held out instead; where it would leave too few tokens of a small text to score,
more of its documents are, the next ones by their hash. Boundaries that occur in the text itself are
dropped, so <S> and </S> only ever mark where a sentence begins and ends.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from itertools import chain, groupby, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from relmo.config import Fraction, Settings, TokenizerName
from relmo.errors import RelmoError, TextError, WeightError
from relmo.files import explain, locked, open_regular, read_json, replacing_folder, sha256
from relmo.progress import Work, progress, working
from relmo.text.characters import BEGIN_SENTENCE, END_SENTENCE
from relmo.text.documents import read_documents
from relmo.text.lexicon import UNKNOWN, Lexicon
from relmo.text.sentences import split_sentences
from relmo.text.tokenize import make_tokenizer
from relmo.weights.checksums import verify_listed, write_sums

VERSION = 2
PARTS = ("train", "held_out")
FILES = (
    "words.txt",
    "counts.u64",
    *(f"{part}.{kind}" for part in PARTS for kind in ("u32", "docs", "chars")),
)
SPECIAL = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
"""Ids 0, 1, 2."""
BOUNDARIES = frozenset((BEGIN_SENTENCE, END_SENTENCE))
CHUNK_CHARACTERS = 1_000_000
"""Text that a worker tokenizes at a time."""
PER_DOCUMENT = 3
"""Occurrences of a word in one document that count where words are ranked."""
BLOCK_LINES = 20
"""Lines held out together where a text has too few documents to hold out whole ones."""
LEAST_BLOCKS = 20
"""Blocks that such a text has at least, if it has as many lines."""
HELD_OUT_BLOCKS = 10
"""Blocks that are held out of it at least, but no more than a twentieth of them, or one."""
SMALL, FEW = 200_000, 2_000
"""Tokens of a text, and tokens of it that are held out at least, to be scored."""
PIECE = 1 << 22
"""Ids renumbered at a time."""

Ids = NDArray[np.uint32]
Number = TypeVar("Number", np.int64, np.uint64)


@dataclass(frozen=True, kw_only=True)
class CacheSettings(Settings):
    """What determines the content of a cache, besides the text."""

    tokenizer: TokenizerName = "relmo"
    held_out: Fraction = 0.005
    """Fraction of the documents held out from training."""
    whole: Fraction = 0.0
    """Fraction of the training documents that are tokenized as treebanks are, compounds whole, so
    that a model has seen words such as `well-known` or `1,000`, too; they are not counted for the
    vocabulary of the softmax."""
    seed: int = 0


@dataclass(frozen=True)
class CorpusPart:
    """The training or the held-out part of a corpus, memory-mapped."""

    tokens: Ids
    documents: NDArray[np.int64]
    """(documents + 1,) offsets into tokens."""
    characters: NDArray[np.int64] | None = None
    """(documents,) characters of each as it was given, line ends included; None if not known."""

    def document(self, number: int) -> Ids:
        """Ids of one document, boundaries included."""
        return self.tokens[self.documents[number] : self.documents[number + 1]]


class TokenCache:
    """A corpus as word ids."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        advice = f"delete {folder}: it will be built again"
        verify_listed((folder / name for name in FILES), advice)
        self.meta = read_json(folder / "meta.json")
        try:
            with open_regular(folder / "words.txt") as file:
                self.words = file.read().decode("utf-8").split("\n")[:-1]
            self.counts = _read_array(folder / "counts.u64", np.uint64)
            self.train = _open_part(folder, "train")
            self.held_out = _open_part(folder, "held_out")
            self._check()
        except (OSError, ValueError) as error:
            raise WeightError(f"{folder}: damaged ({error}); {advice}") from error

    def _check(self) -> None:
        """Raise ValueError unless the files belong together."""
        if tuple(self.words[: len(SPECIAL)]) != SPECIAL or len(self.words) != len(self.counts):
            raise ValueError("words.txt and counts.u64 do not belong together")
        if not isinstance(self.meta.get("tokens"), dict):
            raise ValueError("meta.json lacks 'tokens'")
        for part in (self.train, self.held_out):
            ends, characters = part.documents, part.characters
            bounds = [0, len(part.tokens)]
            if not len(ends) or ends[[0, -1]].tolist() != bounds or (np.diff(ends) < 0).any():
                raise ValueError("documents do not cover the tokens")
            if part.tokens.max(initial=0) >= len(self.words):
                raise ValueError("there are ids of words that words.txt does not have")
            if characters is not None and (
                len(characters) != len(ends) - 1 or (characters < 0).any()
            ):
                raise ValueError("documents and their lengths do not belong together")

    def lexicon(self, size: int) -> Lexicon:
        """The vocabulary of a softmax: the `size` first words, or all if there are fewer."""
        counts = self.counts[:size].astype(np.int64)
        counts[SPECIAL.index(UNKNOWN)] += int(self.counts[size:].sum())
        return Lexicon(self.words[:size], counts)

    def coverage(self, vocabulary: Iterable[str]) -> float:
        """Fraction of the training part's words that a vocabulary contains."""
        known, counts = frozenset(vocabulary), self.counts[len(SPECIAL) :]
        is_known = [word in known for word in self.words[len(SPECIAL) :]]
        return int(counts[is_known].sum()) / max(int(counts.sum()), 1)


def open_cache(
    files: Sequence[Path], folder: Path, settings: CacheSettings, workers: int = 1
) -> TokenCache:
    """The cache of these files and settings in `folder`; it is built if it does not exist.

    While one process builds it, others that need it wait.
    """
    digests = [_digest(path) for path in progress(files, len(files), "files read", show=True)]
    facts = {"version": VERSION, **asdict(settings), "files": digests}
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    home = folder / f"tokens-{key}"
    if not (home / "meta.json").is_file():
        with explain(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with locked(home.with_name(f"{home.name}.lock")):
                if not (home / "meta.json").is_file():  # another process may have built it
                    _build(home, files, settings, workers, facts)
    return TokenCache(home)


def _build(
    home: Path,
    files: Sequence[Path],
    settings: CacheSettings,
    workers: int,
    facts: Mapping[str, Any],
) -> None:
    with replacing_folder(home) as new, working("tokenizing the text") as work:
        writer = _write(new, files, settings, None, workers, work)
        blocks, share = None, settings.held_out
        if not all(writer.num_tokens.values()):
            blocks = _choose_blocks(files, settings)
        elif sum(writer.num_tokens.values()) >= SMALL and writer.num_tokens["held_out"] < FEW:
            share = _choose_share(files, settings, sum(writer.num_tokens.values()))
        if blocks is not None or share != settings.held_out:
            for path in new.iterdir():
                path.unlink()
            more = replace(settings, held_out=share)
            writer = _write(new, files, more, blocks, workers, work)
            how = {"held_out_blocks": blocks.lines} if blocks else {"held_out_share": share}
            facts = {**facts, **how}
        if writer.num_tokens["train"] == 0:
            names = ", ".join(map(str, files[:3])) or "no files"
            what = f"no words to train on in {names}; is there text that is not held out?"
            raise TextError(what)
        writer.finish()
        meta = {**facts, "tokens": writer.num_tokens, "documents": writer.num_documents}
        (new / "meta.json").write_text(json.dumps(meta, indent=2), encoding="utf-8")


def _choose_share(files: Sequence[Path], settings: CacheSettings, num_tokens: int) -> float:
    """The share that holds out FEW tokens of a text of so many, but no more than a twentieth."""
    drawn = sorted(
        (_draw(document, str(settings.seed)), sum(len(line) + 1 for line in document))
        for document in _documents(files)
    )
    characters = sum(size for _, size in drawn)
    wanted = 1.5 * characters * FEW / num_tokens  # some documents have longer words
    share, found = settings.held_out, 0
    for number, size in drawn:
        if found >= wanted or found + size > characters / 20:
            break
        share, found = max(share, math.nextafter(number, 1)), found + size
    return share


class _Blocks(NamedTuple):
    """How a text with too few documents is held out: blocks of lines that draw a small number."""

    lines: int
    most: float
    """The largest number of a block that is held out."""


def _choose_blocks(files: Sequence[Path], settings: CacheSettings) -> _Blocks | None:
    """Blocks that hold out the share that is asked for; None if none is, or there is one line."""
    num_lines = sum(map(len, _documents(files)))
    if num_lines < 2 or not 0 < settings.held_out < 1:
        return None
    lines = max(1, min(BLOCK_LINES, num_lines // LEAST_BLOCKS))
    found = sorted(
        _draw(block, str(settings.seed))
        for document in _documents(files)
        for block in _blocks_of(document, lines)
    )
    least = max(1, min(HELD_OUT_BLOCKS, len(found) // 20))
    count = max(least, round(settings.held_out * len(found)))
    return _Blocks(lines, found[count - 1]) if found[count - 1] < found[-1] else None


def _cut(
    document: Sequence[str], blocks: _Blocks, settings: CacheSettings
) -> Iterator[tuple[list[str], bool]]:
    """The parts of a document that are held out or not, each as a document of its own."""
    cut = _blocks_of(document, blocks.lines)
    for is_out, group in groupby(cut, lambda b: _draw(b, str(settings.seed)) <= blocks.most):
        yield list(chain.from_iterable(group)), is_out


def _blocks_of(document: Sequence[str], lines: int) -> Iterator[Sequence[str]]:
    return (document[first : first + lines] for first in range(0, len(document), lines))


def _documents(files: Sequence[Path]) -> Iterator[list[str]]:
    return chain.from_iterable(map(read_documents, files))


def _write(
    folder: Path,
    files: Sequence[Path],
    settings: CacheSettings,
    blocks: _Blocks | None,
    workers: int,
    work: Work,
) -> _Writer:
    writer = _Writer(folder)
    for chunk in _split_all(files, settings, blocks, workers):
        writer.add(chunk)
        work.detail = f"{sum(writer.num_tokens.values()):,} tokens"
    return writer


@dataclass(frozen=True)
class _Chunk:
    """Documents of one worker: ids into its own word list, lengths, which are held out."""

    words: list[str]
    ids: Ids
    lengths: list[int]
    characters: list[int]
    held_out: list[bool]
    spread: NDArray[np.int64]
    """(words,) occurrences of each in training documents, at most PER_DOCUMENT in each."""


def _split_all(
    files: Sequence[Path], settings: CacheSettings, blocks: _Blocks | None, workers: int
) -> Iterator[_Chunk]:
    """Chunks in the order of the text, tokenized by this many worker processes."""
    jobs = ((documents, settings, blocks) for documents in _grouped(files))
    if workers <= 1:
        yield from map(_split, jobs)
        return
    # Spawned, not forked: a fork would copy locks that other threads of this process hold.
    with ProcessPoolExecutor(workers, get_context("spawn"), _ignore_interrupts) as pool:
        try:
            # A bounded number of jobs at a time, so that text is not read far ahead of the workers.
            waiting = [pool.submit(_split, job) for job in islice(jobs, 2 * workers)]
            while waiting:
                chunk = waiting.pop(0).result()
                waiting += [pool.submit(_split, job) for job in islice(jobs, 1)]
                yield chunk
        except BrokenProcessPool as error:
            raise RelmoError(
                "a worker process that tokenizes text died; is there enough memory for it? In a "
                "script of your own, call relmo under `if __name__ == '__main__':`"
            ) from error


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which reaches all processes of a terminal, to the one that waits for them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _grouped(files: Sequence[Path]) -> Iterator[list[list[str]]]:
    """Documents in groups of about CHUNK_CHARACTERS."""
    group: list[list[str]] = []
    size = 0
    for document in _documents(files):
        group.append(document)
        size += sum(map(len, document))
        if size >= CHUNK_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _split(job: tuple[list[list[str]], CacheSettings, _Blocks | None]) -> _Chunk:
    documents, settings, blocks = job
    held_out = [is_held_out(document, settings) for document in documents]
    if blocks is not None:
        parts = [part for document in documents for part in _cut(document, blocks, settings)]
        documents, held_out = [part for part, _ in parts], [is_out for _, is_out in parts]
    row_of = {word: row for row, word in enumerate(SPECIAL)}
    ids: list[int] = []
    lengths: list[int] = []
    characters = [sum(len(line) + 1 for line in document) for document in documents]
    counted: list[NDArray[np.int64]] = []
    usual, other = make_tokenizer(settings.tokenizer), make_tokenizer("treebank")
    for document, is_out in zip(documents, held_out, strict=True):
        before = len(ids)
        is_whole = not is_out and is_kept_whole(document, settings)
        tokenizer = other if is_whole else usual
        for line in document:
            for start, end in split_sentences(line):
                found = [token.text for token in tokenizer.tokens(line[start:end])]
                if words := [word for word in found if word not in BOUNDARIES]:
                    ids += [0, *(row_of.setdefault(word, len(row_of)) for word in words), 1]
        lengths.append(len(ids) - before)
        if not (is_out or is_whole):
            found_ids, times = np.unique(ids[before:], return_counts=True)
            counted.append(np.repeat(found_ids, np.minimum(times, PER_DOCUMENT)).astype(np.int64))
    every = np.concatenate([np.zeros(0, np.int64), *counted])
    spread = np.bincount(every, minlength=len(row_of))
    every_id = np.array(ids, dtype=np.uint32)
    return _Chunk(list(row_of), every_id, lengths, characters, held_out, spread)


def is_held_out(document: Iterable[str], settings: CacheSettings) -> bool:
    """Whether a document is held out from training; depends only on its text and the seed."""
    return _draw(document, str(settings.seed)) < settings.held_out


def is_kept_whole(document: Iterable[str], settings: CacheSettings) -> bool:
    """Whether a training document is tokenized as treebanks are, by its text and the seed."""
    return _draw(document, f"{settings.seed} whole") < settings.whole


def _draw(document: Iterable[str], salt: str) -> float:
    """A pseudo-random number from 0 to 1 that depends only on the text and the salt."""
    digest = hashlib.blake2b("\n".join(document).encode("utf-8", "replace"), digest_size=8)
    digest.update(salt.encode())
    return int.from_bytes(digest.digest(), "big") / 2**64


class _Writer:
    """Appends chunks with provisional ids; `finish` ranks the words and renumbers the ids."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.num_tokens = {"train": 0, "held_out": 0}
        self.num_documents = {"train": 0, "held_out": 0}
        self._row_of = {word: row for row, word in enumerate(SPECIAL)}
        self._counts = np.zeros(len(SPECIAL), dtype=np.uint64)
        self._spread = np.zeros(len(SPECIAL), dtype=np.int64)
        self._lengths = {"train": array("q"), "held_out": array("q")}
        self._characters = {"train": array("q"), "held_out": array("q")}

    def add(self, chunk: _Chunk) -> None:
        rows = [self._row_of.setdefault(word, len(self._row_of)) for word in chunk.words]
        ids = np.array(rows, dtype=np.uint32)[chunk.ids]
        self._spread = np.pad(self._spread, (0, len(self._row_of) - len(self._spread)))
        self._spread[rows] += chunk.spread
        lengths = np.array(chunk.lengths, dtype=np.int64)
        held_out = np.array(chunk.held_out, dtype=np.bool_)
        for side, is_here in (("train", ~held_out), ("held_out", held_out)):
            tokens = ids[np.repeat(is_here, lengths)]
            _append(self.folder / f"{side}.u32", tokens)
            self._lengths[side].extend(lengths[is_here].tolist())
            self._characters[side].extend(np.array(chunk.characters)[is_here].tolist())
            self.num_tokens[side] += len(tokens)
            self.num_documents[side] = len(self._lengths[side])
            if side == "train":
                counts = np.bincount(tokens, minlength=len(self._row_of)).astype(np.uint64)
                counts[: len(self._counts)] += self._counts
                self._counts = counts

    def finish(self) -> None:
        words, first = list(self._row_of), len(SPECIAL)
        spread, counts = self._spread.tolist(), self._counts.tolist()
        rows = range(first, len(words))
        ranked = sorted(rows, key=lambda row: (-spread[row], -counts[row], words[row]))
        order = np.array([*range(first), *ranked], dtype=np.int64)
        new_id = np.empty(len(words), dtype=np.uint32)
        new_id[order] = np.arange(len(words), dtype=np.uint32)
        (self.folder / "words.txt").write_bytes("".join(f"{words[i]}\n" for i in order).encode())
        _append(self.folder / "counts.u64", self._counts[order])
        for side, lengths in self._lengths.items():
            _renumber(self.folder / f"{side}.u32", new_id)
            characters = np.frombuffer(self._characters[side], dtype=np.int64)
            _append(self.folder / f"{side}.chars", characters)
            ends = np.cumsum(np.frombuffer(lengths, dtype=np.int64))
            _append(self.folder / f"{side}.docs", np.concatenate([[0], ends]).astype(np.int64))
        write_sums(self.folder, FILES)


def _append(path: Path, values: NDArray[np.generic]) -> None:
    with path.open("ab") as file:
        file.write(values.tobytes())  # not `tofile`, which ignores a full disk


def _renumber(path: Path, new_id: Ids) -> None:
    with path.open("r+b") as file:
        while piece := file.read(4 * PIECE):
            file.seek(-len(piece), os.SEEK_CUR)
            file.write(new_id[np.frombuffer(piece, dtype=np.uint32)].tobytes())


def _open_part(folder: Path, side: str) -> CorpusPart:
    path = folder / f"{side}.u32"
    with open_regular(path) as file:
        empty = not file.read(1)
    tokens = np.zeros(0, np.uint32) if empty else np.memmap(path, dtype=np.uint32, mode="r")
    characters = folder / f"{side}.chars"  # caches of earlier versions have none
    counts = _read_array(characters, np.int64) if characters.is_file() else None
    return CorpusPart(tokens, _read_array(folder / f"{side}.docs", np.int64), counts)


def _read_array(path: Path, kind: type[Number]) -> NDArray[Number]:
    with open_regular(path) as file:
        return np.frombuffer(file.read(), dtype=kind)


def _digest(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise TextError(f"{path}: cannot be read ({error.strerror})") from error
