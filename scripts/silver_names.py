"""Label UD English-EWT's training part with names, for want of labels, and other sets anew.

    python scripts/silver_names.py open-ner ud-ewt --pos runs/pos --vectors glove-100d.txt \
        --text news.txt --titles titles.json --output silver

UNER English-EWT has names for the dev and test parts of the treebank alone. A teacher that reads
what no text to come has, the treebank's own parts of speech, finds the names of the training part
much better than a model of the words: a proper noun is nearly always in a name, another word
hardly ever. It learns from half of UNER's dev part and from the other sets of
scripts/open_ner_data.py, whose parts of speech come from `--pos`, a run of that task; each set has
a vector of its own, so that the teacher learns how they differ and labels as UNER does. It reads
all words of the file of vectors, which a model that is shipped cannot carry, and, with `--titles`,
where titles of an encyclopedia stand and of what kind they are (scripts/typed_titles.py). Names of
the kind MISC, which UNER does not mark, are found as WikiGold marks them.

OUTPUT gets silver.conll, the treebank, others.conll, the other sets as UNER would label them, and
text.conll, the sentences of the plain text of `--text`, each with a word and its tag per line; and
teacher.json, the teachers' scores on the other half of UNER's dev part and on its test part, of
the latter also with the parts of speech that `--pos` finds.
open_ner_data.py takes these files in place of the other sets.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from relmo.elmo import Elmo
from relmo.files import write_json
from relmo.kernels.cpu_products import Precision
from relmo.nn.blocks.crf import Crf
from relmo.nn.blocks.encoder import RecurrentEncoder
from relmo.nn.scalar_mix import ScalarMix
from relmo.tasks.chunk_tags import to_bioes, transitions_allowed, without_labels
from relmo.tasks.layer_cache import LayerCache
from relmo.tasks.metrics import entity_scores
from relmo.tasks.ner.data import TaggedSentence, read_conllu
from relmo.tasks.ner.task import NerTask
from relmo.tasks.output_embeddings import OutputEmbeddings
from relmo.tasks.plain_text import sentences_of
from relmo.tasks.run import load_task
from relmo.tasks.static_vectors import StaticVectors, read_vectors
from relmo.types import Layers

sys.path.insert(0, str(Path(__file__).parent))
from open_ner_data import is_chosen, mapped, sentences
from typed_titles import MAX_WORDS, ORDER

SETS = {"uner": "", "wikigold": "wikigold/*", "wnut": "wnut17/*", "btc": "btc/*",
        "crossner": "crossner/*/*.conll"}  # fmt: skip
REPEATS = 5
SHAPES = 5
Counts = Mapping[str, int]
LENGTHS = range(4, 81)
"""Words of the sentences of plain text that are labeled."""


class Example(NamedTuple):
    """A sentence of one of the sets, with what the teacher reads besides its words."""

    words: tuple[str, ...]
    upos: tuple[str, ...]
    tags: tuple[str, ...]
    """In BIOES; empty where they are to be found."""
    set_number: int


class Titles:
    """Where titles of known kinds stand in a sentence, and which words are names of persons."""

    width = 4 * len(ORDER) + 4

    def __init__(self, titles: Mapping[str, str], first: Counts, last: Counts) -> None:
        named = ((tuple(title.lower().split()), kind) for title, kind in titles.items())
        self._kinds = {words: kind for words, kind in named if len(words) <= MAX_WORDS}
        self._first, self._last = (
            {word.lower(): count for word, count in each.items()} for each in (first, last)
        )

    def marks(self, words: Sequence[str]) -> NDArray[np.float32]:
        """The longest title from each word on, as BIOES of its kind; how often a word is a name.

        (T, width). A title of one word counts where it begins with a capital.
        """
        low, found = [word.lower() for word in words], np.zeros((len(words), self.width), "f4")
        for n, word in enumerate(low):
            lengths = range(min(MAX_WORDS, len(low) - n), 0 if words[n][:1].isupper() else 1, -1)
            known = (k for k in lengths if tuple(low[n : n + k]) in self._kinds)
            if length := next(known, 0):
                at = 4 * ORDER.index(self._kinds[tuple(low[n : n + length])])
                if length == 1:
                    found[n, at] = 1
                else:
                    found[n, at + 1] = found[n + length - 1, at + 3] = 1
                    found[n + 1 : n + length - 1, at + 2] = 1
            counts = self._first.get(word, 0), self._last.get(word, 0)
            found[n, -4:] = [*(np.log1p(counts) / 4), *(count > 0 for count in counts)]
        return found


class Teacher(nn.Module):
    """Word vectors, letter case, part of speech and set -> biLSTM -> CRF, (B, T, E) -> (B, T, K).

    Word vectors are ELMo's, the rows of its softmax and those of a file; marks are those of titles.
    """

    def __init__(
        self, elmo: Elmo, output: OutputEmbeddings, static: StaticVectors, num_upos: int,
        tags: Sequence[str], marks_width: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mix = ScalarMix(elmo.config.num_layers)
        self.output = output
        table = torch.tensor(static.table)
        table[1] = 0  # a word without a vector
        self.register_buffer("static", table, persistent=False)
        self.upos, self.sets = nn.Embedding(num_upos, 32), nn.Embedding(len(SETS), 16)
        self.shapes = nn.Embedding(SHAPES, 8)
        self.elmo_dropout, self.dropout = nn.Dropout(0.5), nn.Dropout(0.3)
        width = elmo.config.width + output.width + table.shape[1] + 32 + 8 + 16 + marks_width
        self.encoder = RecurrentEncoder(width, 200, 1, 0.5)
        self.to_tags = nn.Linear(400, len(tags))
        self.crf = Crf(len(tags), torch.tensor(transitions_allowed(tags)))
        self.last_dropout = nn.Dropout(0.5)

    def forward(
        self, layers: Tensor, words: Tensor, marks: Tensor, sets: Tensor, mask: Tensor
    ) -> Tensor:
        """Scores of the tags, (B, T, K); see `Reader` for what is read."""
        rows, static, upos, shapes = words  # (B, T) each
        mixed = self.elmo_dropout(self.mix(Layers(layers, mask)))  # (B, T, D)
        parts = self.output(rows), self.static[static], self.upos(upos), self.shapes(shapes), marks
        own = self.dropout(torch.cat(parts, -1))  # (B, T, ·)
        style = self.sets(sets).unsqueeze(1).expand(-1, mask.shape[1], -1)  # (B, T, ·)
        x = torch.cat([mixed, own, style], -1) * mask.unsqueeze(-1)  # (B, T, E)
        h = self.encoder(x, mask.sum(1))  # (B, T, 2H)
        scores: Tensor = self.to_tags(self.last_dropout(h))
        return scores


class Reader:
    """Turns examples into tensors."""

    def __init__(
        self, cache: LayerCache, output: OutputEmbeddings, static: StaticVectors,
        upos: Sequence[str], device: str, titles: Titles | None = None,
    ) -> None:  # fmt: skip
        self.cache, self.output, self.static, self.device = cache, output, static, device
        self.upos, self.titles = {tag: number for number, tag in enumerate(upos)}, titles

    def __call__(self, examples: Sequence[Example]) -> tuple[Tensor, ...]:
        """Layers (L + 1, B, T, D), words (4, B, T), marks (B, T, ·), sets (B,), mask (B, T).

        Words are rows of the softmax, rows of the file, parts of speech, and how they are written.
        """
        T = max(len(e.words) for e in examples)
        words = np.zeros((4, len(examples), T), np.int64)
        marks = np.zeros((len(examples), T, 0 if self.titles is None else Titles.width), np.float32)
        mask = np.zeros((len(examples), T), bool)
        for b, e in enumerate(examples):
            n = len(e.words)
            words[:2, b, :n] = self.output.rows(e.words), self.static.rows(e.words)
            words[2:, b, :n] = [self.upos[u] for u in e.upos], [shape(word) for word in e.words]
            mask[b, :n] = True
            if self.titles is not None:
                marks[b, :n] = self.titles.marks(e.words)
        sets = torch.tensor([e.set_number for e in examples])
        layers = self.cache([e.words for e in examples])
        arrays = (torch.from_numpy(each) for each in (words, marks))
        batch = (layers, *arrays, sets, torch.from_numpy(mask))
        return tuple(each.to(self.device) for each in batch)


def shape(word: str) -> int:
    """How a word is written: 1 lower case, 2 capitals, 3 a capital first, 4 otherwise."""
    if word.islower():
        return 1
    if word.isupper() and len(word) > 1:
        return 2
    return 3 if word[:1].isupper() else 4


def labeled(source: Path, ud: Path, task: NerTask) -> tuple[list[Example], list[Example]]:
    """Training examples of all sets, UNER's several times, and those of UNER to choose by."""
    own = [(is_chosen(document), e) for document, e in uner(source, ud, "dev")]
    train = REPEATS * [e for is_ours, e in own if is_ours]
    for number, pattern in enumerate(SETS.values()):
        found = [
            each
            for path in (sorted(source.glob(pattern)) if pattern else [])
            for _, each in sentences(path, 0, 1)
        ]
        tags = upos_of([tuple(word for word, _ in each) for each in found], task)
        train += [example(each, t, number) for each, t in zip(found, tags, strict=True)]
    return train, [e for is_ours, e in own if not is_ours]


def plain(path: Path, task: NerTask) -> list[Example]:
    """The sentences of a text without labels, each once."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = dict.fromkeys(words for line in lines for words, _ in sentences_of(line))
    words = [each for each in found if len(each) in LENGTHS]
    return [Example(w, u, (), 0) for w, u in zip(words, upos_of(words, task), strict=True)]


def upos_of(sentences: Sequence[tuple[str, ...]], task: NerTask) -> list[tuple[str, ...]]:
    """Parts of speech as a tagger finds them."""
    return [tuple(tags) for tags in task.predict([TaggedSentence(s, ()) for s in sentences])]


def uner(source: Path, ud: Path, part: str) -> Iterator[tuple[str, Example]]:
    """(document, sentence) of UNER with the treebank's parts of speech, in UNER's order."""
    upos = {s.words: s.tags for s in read_conllu(ud / f"en_ewt-ud-{part}.conllu")}
    for document, found in sentences(source / f"uner-ewt/{part}.iob2", 1, 2):
        words = tuple(word for word, _ in found)
        if words in upos:  # some are tokenized otherwise in another version of the treebank
            yield document, example(found, upos[words], 0)


def example(sentence: list[tuple[str, str]], upos: Sequence[str], number: int) -> Example:
    """A sentence with our types of names, in BIOES."""
    words, tags = zip(*mapped(sentence), strict=True)
    return Example(words, tuple(upos), tuple(to_bioes(tags)), number)


def batches(examples: Sequence[Example], size: int) -> Iterator[list[int]]:
    """Numbers of examples, of similar lengths."""
    order = sorted(range(len(examples)), key=lambda n: len(examples[n].words))
    for first in range(0, len(order), size):
        yield order[first : first + size]


def train_teacher(
    teacher: Teacher, reader: Reader, train: Sequence[Example], tags: Sequence[str], epochs: int,
    seed: int,
) -> None:  # fmt: skip
    """Train a teacher; the rate falls to 0."""
    number_of = {tag: number for number, tag in enumerate(tags)}
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=2e-3, weight_decay=0.01)
    rng = np.random.default_rng(seed)
    plan = list(batches(train, 32))
    steps, step = epochs * len(plan), 0
    teacher.train()
    for epoch in range(epochs):
        total = 0.0
        for number in rng.permutation(len(plan)).tolist():
            for group in optimizer.param_groups:
                group["lr"] = 2e-3 * min(1, (step + 1) / 100) * (1 - step / steps)
            some = [train[n] for n in plan[number]]
            *given, mask = reader(some)
            wanted = np.zeros(mask.shape, np.int64)
            for b, e in enumerate(some):
                wanted[b, : len(e.tags)] = [number_of[tag] for tag in e.tags]
            scores = teacher(*given, mask)
            gold = torch.from_numpy(wanted).to(mask.device)
            loss = teacher.crf.loss(scores, gold, mask).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(teacher.parameters(), 5.0)
            optimizer.step()
            step, total = step + 1, total + loss.item()
        print(f"seed {seed}, epoch {epoch + 1}: loss {total / len(plan):.3f}", flush=True)
    teacher.eval()


@torch.no_grad()
def find(
    teachers: Sequence[Teacher], reader: Reader, examples: Sequence[Example], tags: Sequence[str]
) -> list[list[str]]:
    """The tags of each example by the mean of all teachers' scores."""
    found: dict[int, list[str]] = {}
    crf = Crf(len(tags), teachers[0].crf.allowed).to(reader.device)
    for name in ("transitions", "start", "end"):
        values = torch.stack([getattr(t.crf, name) for t in teachers]).mean(0)
        getattr(crf, name).copy_(values)
    for part in batches(examples, 64):
        *given, mask = reader([examples[n] for n in part])
        scores = torch.stack([t(*given, mask) for t in teachers]).mean(0)  # (B, T, K)
        paths = crf.decode(scores, mask)
        found.update(zip(part, ([tags[k] for k in path] for path in paths), strict=True))
    return [found[n] for n in range(len(examples))]


def with_misc(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """Tags of UNER's kinds, and those of MISC among `others` that do not overlap them."""
    found, first = list(names), 0
    while first < len(others):
        last = first
        if others[first] in ("S-MISC", "B-MISC"):
            while others[last] not in ("S-MISC", "E-MISC"):
                last += 1
            if all(tag == "O" for tag in names[first : last + 1]):
                found[first : last + 1] = others[first : last + 1]
        first = last + 1
    return found


def main() -> None:
    """Train the teachers, score them and label the training part."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path, help="open-ner")
    parser.add_argument("ud", type=Path, help="folder of UD English-EWT")
    parser.add_argument("--pos", type=Path, required=True, help="run of the task pos")
    parser.add_argument("--vectors", type=Path, required=True, help="static word vectors")
    parser.add_argument("--text", type=Path, help="plain text to be labeled too")
    parser.add_argument("--titles", type=Path, help="of scripts/typed_titles.py")
    parser.add_argument("--elmo", default="relmo-en-base")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cache", type=Path, help="of ELMo's layers; OUTPUT/cache by default")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    precision: Precision = "int8" if given.device == "cpu" else "bfloat16"
    elmo = Elmo.from_pretrained(given.elmo, device=given.device, precision=precision)
    tagger = load_task(given.pos, device="cpu")
    train, dev = labeled(given.source, given.ud, tagger)
    test = [e for _, e in uner(given.source, given.ud, "test")]
    tags_of = upos_of([e.words for e in test], tagger)
    tagged = [e._replace(upos=t) for e, t in zip(test, tags_of, strict=True)]
    print(f"{len(dev):,} dev and {len(test):,} test sentences")
    bare = [
        Example(s.words, s.tags, (), 0) for s in read_conllu(given.ud / "en_ewt-ud-train.conllu")
    ]
    text = plain(given.text, tagger) if given.text else []
    tags = sorted({tag for e in train for tag in e.tags})
    upos = sorted({u for e in (*train, *dev, *test, *tagged, *bare, *text) for u in e.upos})
    words = [e.words for e in (*train, *bare, *dev, *test, *text)]
    output = OutputEmbeddings(elmo)
    static = read_vectors(given.vectors, {word for each in words for word in each})
    cache = LayerCache(elmo, words, given.cache or given.output / "cache")
    titles = None if given.titles is None else Titles(**json.loads(given.titles.read_text()))
    reader, teachers, scores = Reader(cache, output, static, upos, given.device, titles), [], []
    marks_width = 0 if titles is None else titles.width
    for seed in range(given.seeds):
        torch.manual_seed(seed)
        teacher = Teacher(elmo, output, static, len(upos), tags, marks_width)
        teachers.append(teacher.to(given.device))
        train_teacher(teachers[-1], reader, train, tags, given.epochs, seed)
        for name, part in (("dev", dev), ("test", test), ("test, tagged", tagged)):
            for what, some in (("one", teachers[-1:]), ("all", teachers)):
                found = [without_labels(t, ("MISC",)) for t in find(some, reader, part, tags)]
                f1 = entity_scores([e.tags for e in part], found).overall.percent()
                scores.append({"seed": seed, "part": name, "teachers": what, **f1})
                print(scores[-1], flush=True)
    given.output.mkdir(parents=True, exist_ok=True)
    others = [e for e in train if e.set_number]
    for name, some in (("silver", bare), ("others", others), ("text", text)):
        names, with_others = (
            find(teachers, reader, [e._replace(set_number=number) for e in some], tags)
            for number in (0, 1)
        )
        blocks = [
            "".join(f"{word}\t{tag}\n" for word, tag in zip(e.words, with_misc(a, b), strict=True))
            for e, a, b in zip(some, names, with_others, strict=True)
        ]
        (given.output / f"{name}.conll").write_text("\n".join(blocks), encoding="utf-8")
    write_json(given.output / "teacher.json", {"scores": scores})


if __name__ == "__main__":
    main()
