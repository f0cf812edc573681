"""What is fuzzed: a target takes bytes and must return, or raise an error that relmo explains."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from relmo import Elmo
from relmo.errors import RelmoError, TextWarning
from tests.support.official import write_official
from tests.support.toy_tasks import TOYS

TEXTS = [
    'Dr. Ada Lovelace (1815–1852) didn\'t pay £1,000.50 for the U.S. ed... "Really?" she said.',
    "naïve café — e\u0301tude 😀👨\u200d👩\u200d👧 한국어는 좋다. 中文文本。 ภาษาไทย العربية हिन्दी",
    "a_b __init__ well-known 3rd 1990s 5kg AT&T Amazon.com http://x.org/a?b=c#d me@x.org $5 50%",
    "\tline one\r\nline two\u2028three\n\n  * item\n# Heading\n> quote 'tis o'clock rock 'n' roll",
]


@dataclass(frozen=True)
class Target:
    """Something to throw bytes at."""

    name: str
    seeds: list[bytes]
    check: Callable[[bytes], Any]
    """Raises only RelmoError, or AssertionError if a promise does not hold."""
    weight: int = 1
    """Its share of the inputs."""


def explained(target: Target, data: bytes) -> str | None:
    """None if the target copes with the bytes, else what went wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", TextWarning)  # rows that are skipped aloud
            target.check(data)
    except RelmoError as error:
        if not str(error).strip():
            return "an error without words"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return None


# ── text ────────────────────────────────────────────────────────────────────────────────────────


def text_targets() -> list[Target]:
    """Tokenizers, sentences, spelling, terms of a search, filters."""
    from relmo.config import CharCnnConfig
    from relmo.search.filters import conditions, parse_where
    from relmo.search.lexical import make_analyzer
    from relmo.text.characters import make_characters
    from relmo.text.sentences import split_sentences
    from relmo.text.tokenize import make_tokenizer

    seeds = [text.encode() for text in TEXTS]
    analyze = make_analyzer("english")

    def tokens(name: str) -> Callable[[bytes], None]:
        tokenizer = make_tokenizer(name)

        def check(data: bytes) -> None:
            text, place = data.decode("utf-8", "replace"), 0
            for token in tokenizer.tokens(text):
                assert token.start >= place, "tokens overlap"
                assert text[token.start : token.end] == token.text, "offsets are wrong"
                assert token.text, "an empty token"
                assert not text[place : token.start].strip(), "text between tokens"
                place = token.end
            assert not text[place:].strip(), "text after the last token"

        return check

    def sentences(data: bytes) -> None:
        text, place = data.decode("utf-8", "replace"), 0
        for start, end in split_sentences(text):
            assert place <= start < end, "sentences overlap"
            assert not text[place:start].strip(), "text between sentences"
            place = end
        assert not text[place:].strip(), "text after the last sentence"

    def spelling(config: CharCnnConfig) -> Callable[[bytes], None]:
        characters = make_characters(config)

        def check(data: bytes) -> None:
            words = data.decode("utf-8", "replace").split()
            ids = characters.spell(words)
            assert ids.shape == (len(words), config.max_characters)
            assert ids.size == 0 or 0 <= ids.min() <= ids.max() < config.num_ids

        return check

    def where(data: bytes) -> None:
        conditions(parse_where([data.decode("utf-8", "replace")]))

    sizes: dict[str, Any] = {"width": 8, "character_width": 4, "filters": ((1, 4),)}
    alphabet = "".join(sorted(set("".join(TEXTS)) - {" "}))
    schemes = {"bytes": CharCnnConfig(**sizes)}
    schemes["code points"] = CharCnnConfig(**sizes, scheme="code_points", alphabet=alphabet)
    filters = [b"year>=1990", "année = 1950".encode(), b'a.b != "x y"', b"ok=true"]
    return [
        *(Target(f"tokenizer {n}", seeds, tokens(n), 60) for n in ("relmo", "treebank")),
        Target("tokenizer whitespace", seeds, tokens("whitespace"), 10),
        Target("sentences", seeds, sentences, 60),
        *(Target(f"spelling {n}", seeds, spelling(c), 30) for n, c in schemes.items()),
        Target("search terms", seeds, lambda data: analyze(data.decode("utf-8", "replace")), 30),
        Target("filters", filters, where, 30),
    ]


# ── files ───────────────────────────────────────────────────────────────────────────────────────


def file_targets(folder: Path) -> list[Target]:
    """Every reader of files, each on a file of its own under the folder."""
    targets = [*_task_files(folder), *_document_files(folder), *_model_files(folder)]
    return [*targets, *_other_files(folder)]


def _file(path: Path, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    path.parent.mkdir(parents=True, exist_ok=True)

    def check(data: bytes) -> None:
        path.write_bytes(data)
        read(path)

    return check


def _task_files(folder: Path) -> list[Target]:
    from relmo.tasks.coref.data import read_documents
    from relmo.tasks.encoder.task import EncoderTask
    from relmo.tasks.multilabel.data import read_table as read_multilabel
    from relmo.tasks.ner.data import read_columns, read_conllu
    from relmo.tasks.snli.data import read_sick, read_snli
    from relmo.tasks.squad.data import read_questions
    from relmo.tasks.srl.data import read_frames
    from relmo.tasks.sst.data import read_table, read_trees

    readers: dict[str, tuple[str, Callable[[Path], Any]]] = {
        "coref": ("coref", lambda path: list(read_documents(path))),
        "encoder": ("encoder", lambda path: EncoderTask.read(path, "train")),
        "multilabel": ("multilabel", read_multilabel),
        "ner": ("ner", read_columns),
        "pos": ("pos", read_conllu),
        "snli": ("snli", read_snli),
        "squad": ("squad", read_questions),
        "srl": ("srl", read_frames),
        "sst trees": ("sst", lambda path: read_trees(path, phrases=True)),
    }
    targets = []
    for name, (task, read) in readers.items():
        toy = TOYS[task]
        sample = folder / f"sample{toy.suffix}"
        toy.write(sample, 4, random.Random(0))
        path = folder / f"{name.replace(' ', '-')}{toy.suffix}"
        targets.append(Target(f"task data: {name}", [sample.read_bytes()], _file(path, read)))
    csv = [b"text,label\nfine film,4\ndull film,0\n", b'label\ttext\n1\t"a ""b"" c"\n']
    sick = [b"pair_ID\tsentence_A\tsentence_B\tentailment_judgment\n1\ta b\tc d\tNEUTRAL\n"]
    targets.append(Target("task data: tables", csv, _file(folder / "table.csv", read_table)))
    split = str.split
    return [
        *targets,
        Target("task data: sick", sick, _file(folder / "s.txt", lambda p: read_sick(p, split))),
    ]


def _document_files(folder: Path) -> list[Target]:
    from relmo.search.documents import TableColumns, read_source, split_passages
    from relmo.text.documents import read_documents

    def passages(path: Path) -> None:
        columns = TableColumns(text=("text",))
        for document in read_source(str(path), columns):
            if hasattr(document, "text"):
                split_passages(document, "paragraph", 20)

    table = [b"text,year\nriver bank,1950\nloan rate,2020\n", b'"text"\n"a\nb"\n']
    rows = [b'{"text": "river bank", "year": 1950}\n{"text": "loan", "deep": {"a": [1, null]}}\n']
    seeds = {
        ".txt": [text.encode() for text in TEXTS],
        ".md": [b"# Title\n\nA *bank* of the river.\n\n- one\n- two\n\n```\ncode\n```\n"],
        ".csv": table,
        ".tsv": [each.replace(b",", b"\t") for each in table],
        ".jsonl": rows,
        ".xlsx": [_workbook()],
    }
    found = [
        Target(f"documents: {suffix}", seeds[suffix], _file(folder / f"d{suffix}", passages))
        for suffix in seeds
    ]
    corpus = _file(folder / "corpus.txt", lambda path: list(read_documents(path)))
    return [*found, Target("documents: corpus", seeds[".txt"], corpus)]


def _workbook() -> bytes:
    import openpyxl

    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in (["text", "year"], ["river bank", 1950], ["loan", None]):
        book.active.append(row)
    book.save(file)
    plain = io.BytesIO()  # stored, so that mutations reach the XML
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(plain, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    return plain.getvalue()


def _model_files(folder: Path) -> list[Target]:
    from relmo.weights.find import read_model
    from tests.conftest import tiny_config

    native, official = folder / "native", folder / "official"
    Elmo.untrained(tiny_config(), seed=1).save_pretrained(native)
    config = json.loads((native / "config.json").read_text())
    bare = {key: value for key, value in config.items() if key not in ("seal", "files")}
    (native / "config.json").write_text(json.dumps(bare, indent=2))  # no checksum stops a mutation
    write_official(official)
    targets = []
    for kind, source in (("native", native), ("official", official)):
        for file in sorted(path for path in source.iterdir() if path.is_file()):
            if file.suffix == ".md":
                continue
            copy = folder / f"{kind}-{file.name}"
            shutil.copytree(source, copy)
            check = _file(copy / file.name, lambda path: read_model(path.parent))
            targets.append(Target(f"{kind} model: {file.name}", [file.read_bytes()], check))
    return targets


def _other_files(folder: Path) -> list[Target]:
    from relmo.tasks.lm.settings import load_recipe
    from relmo.tasks.run import load_task_recipe
    from relmo.tasks.static_vectors import read_vectors
    from relmo.training.run import read_record, write_record
    from relmo.vectors.formats import Record
    from relmo.vectors.writer import VectorWriter

    recipes = Path(load_recipe.__code__.co_filename).parents[2] / "recipes"
    tiny = (recipes / "pretrain/tiny.toml").read_bytes()
    ner = (recipes / "tasks/ner.toml").read_bytes()
    glove = b"the 0.1 0.2 0.3\nbank -1.5 2e-3 0\nriver 1 2 3\n"
    record = folder / "seed.json"
    write_record(record, {"results": {"f1": 90.5}, "task": "ner"})
    unfinished = folder / "v.jsonl"

    def interrupted() -> Path:
        with VectorWriter(unfinished, {"model": "m"}, [0], resume=False) as writer:
            for line in range(3):
                vectors = np.ones((1, 2, 4), np.float32)
                writer.append(Record(line, "a b", ["a", "b"], vectors))
        return next(path for path in folder.iterdir() if path.name.endswith(".partial"))

    def resume(path: Path) -> None:
        with VectorWriter(unfinished, {"model": "m"}, [0], resume=True) as writer:
            assert 0 <= writer.done <= 3

    journal = interrupted()
    return [
        Target("recipe: pretrain", [tiny], _file(folder / "p.toml", lambda p: load_recipe(str(p)))),
        Target(
            "recipe: task",
            [ner],
            _file(folder / "t.toml", lambda p: load_task_recipe("ner", str(p), [])),
        ),
        Target(
            "static vectors",
            [glove, b"2 3\n" + glove],
            _file(folder / "g.txt", lambda p: read_vectors(p, {"the", "bank"})),
        ),
        Target("run record", [record.read_bytes()], _file(folder / "run.json", read_record)),
        Target("vector journal", [journal.read_bytes()], _file(journal, resume)),
    ]


# ── requests ────────────────────────────────────────────────────────────────────────────────────

BODIES: dict[str, list[Any]] = {
    "/v1/embeddings": [
        {"input": ["river bank", "loan"], "encoding_format": "float"},
        {"input": "a b", "dimensions": 16, "user": "x"},
    ],
    "/embed_tokens": [{"sentences": ["A bank.", ["a", "b"]], "layers": "all"}, {"sentences": []}],
    "/substitutes": [{"sentence": ["a", "bank"], "position": 1, "k": 3}],
    "/search": [
        {"query": "bank", "k": 2, "where": {"year": {">=": 1950}}, "documents": True},
        {"query": "a bank", "by": "words", "copies": True, "explain": True},
    ],
    "/word_map": [{"sentences": ["the bank", "a bank"], "word": "bank"}],
    "/surprisal": [{"sentence": ["the", "bank"]}, {"sentence": "a b"}],
    "/senses": [{"text": "the bank\nA bank .", "word": "bank"}],
    "/change": [{"before": "a a a a a", "after": "a a\n\na a a", "word": "a", "align": True}],
}


def request_targets(client: Any) -> list[Target]:
    """Bodies of every route that takes one."""

    def post(path: str) -> Callable[[bytes], None]:
        def check(data: bytes) -> None:
            answer = client.post(path, content=data, headers={"content-type": "application/json"})
            assert answer.status_code < 500, f"{answer.status_code}: {answer.text[:100]}"
            if answer.status_code >= 400:
                assert answer.json()["error"]["message"], "an error without words"

        return check

    return [
        Target(f"POST {path}", [json.dumps(body).encode() for body in bodies], post(path))
        for path, bodies in BODIES.items()
    ]


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Any]:
    """A client of a server in this process: a tiny model with a softmax, and an index."""
    from fastapi.testclient import TestClient

    from relmo.nn.bilm import BiLM, initialize
    from relmo.search import Document, IndexSettings, SemanticIndex
    from relmo.serve.app import create_app
    from relmo.text.lexicon import Lexicon
    from tests.conftest import tiny_config

    words = ("the", "bank", "<UNK>", "</S>", "river", "<S>", ".")
    generator = np.random.default_rng(3)
    weight = torch.from_numpy(generator.normal(size=(len(words), 8)).astype(np.float32))
    head = {"weight": weight, "bias": torch.zeros(len(words))}
    elmo = Elmo(initialize(BiLM(tiny_config()), seed=1), Lexicon(words), lambda: head)
    documents = [Document(f"d{i}", "s", f"bank {i} river", meta={"year": i}) for i in range(9)]
    plain = IndexSettings(isotropy="none", weighting="none")
    SemanticIndex.build(folder, documents, settings=plain, elmo=elmo).close()
    with contextlib.closing(SemanticIndex.open(folder, elmo=elmo)) as index:
        app = create_app(elmo, index=index)
        try:
            with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as it:
                yield it
        finally:
            app.state.service.batcher.close()
