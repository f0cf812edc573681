"""Tiny data of each probe, made up here."""

import json
import random
from pathlib import Path

TAGS = {"Mira": "PROPN", "Sol": "PROPN", "sings": "VERB", "runs": "VERB", "songs": "NOUN"}
SENTENCES = [["Mira", "sings", "songs"], ["Sol", "runs"], ["Sol", "sings"], ["Mira", "runs"]]

WORDNET = """\
bank%1:14:00:: 08420278 2 20
bank%1:17:01:: 09213565 1 25
bank%2:40:00:: 02310873 1 0
old%3:00:01:: 01638438 1 3
old%5:00:00:past:00 01729566 2 1
river%1:17:00:: 09411430 1 9
"""


def write_pos(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 8), ("dev", 2), ("test", 2)):
        lines = []
        for words in SENTENCES * count:
            rows = enumerate(words, 1)
            lines += ["\t".join([str(n), w, "_", TAGS[w], *"______"]) for n, w in rows]
            lines.append("")
        (folder / f"toy-{part}.conllu").write_text("\n".join(lines))
    return folder


def sense_xml(*sentences: str) -> str:
    """A document for each sentence; `word/lemma/POS/id` is an instance, `_` a space in it."""
    texts = []
    for number, sentence in enumerate(sentences):
        lines = [f'<text id="d{number}">', f'<sentence id="d{number}.s0">']
        for piece in sentence.split():
            word, *rest = piece.split("/")
            word = word.replace("_", " ")
            if rest:
                lemma, pos, name = rest
                lines.append(f'<instance id="{name}" lemma="{lemma}" pos="{pos}">{word}</instance>')
            else:
                lines.append(f'<wf lemma="x" pos="X">{word}</wf>')
        texts += [*lines, "</sentence>", "</text>"]
    body = "\n".join(texts)
    return f'<?xml version="1.0" encoding="UTF-8" ?>\n<corpus lang="en">\n{body}\n</corpus>\n'


def write_set(folder: Path, name: str, xml: str, keys: str) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    data, gold = folder / f"{name}.data.xml", folder / f"{name}.gold.key.txt"
    data.write_text(xml)
    gold.write_text(keys)
    return data, gold


def write_wsd(folder: Path) -> Path:
    river, money = "bank%1:17:01::", "bank%1:14:00::"
    texts = ["the bank/bank/NOUN/{0} of a river", "a bank/bank/NOUN/{0} lends money"]
    train = [texts[n % 2].format(f"i{n}") for n in range(12)]
    keys = "".join(f"i{n} {(river, money)[n % 2]}\n" for n in range(12))
    write_set(folder / "wsd" / "semcor", "semcor", sense_xml(*train), keys)
    test = sense_xml(texts[0].format("a"), texts[1].format("b"), "a river/river/NOUN/c")
    write_set(folder / "wsd" / "one", "one", test, f"a {river}\nb {money}\nc river%1:17:00::\n")
    other = sense_xml("an old/old/ADJ/a bank/bank/NOUN/b")
    write_set(folder / "wsd" / "two", "two", other, f"a old%5:00:00:past:00\nb {money} {river}\n")
    (folder / "wordnet").mkdir()
    (folder / "wordnet" / "index.sense").write_text(WORDNET)
    return folder


def write_wic(folder: Path) -> Path:
    rows = [
        "bank\tN\t1-1\tthe bank of a river\tthe bank of a river",
        "bank\tN\t1-1\tthe bank of a river\tthe bank lends .",
    ]
    for part, count in (("train", 6), ("dev", 2), ("test", 2)):
        (folder / part).mkdir(parents=True)
        (folder / part / f"{part}.data.txt").write_text("\n".join(rows * count) + "\n")
        (folder / part / f"{part}.gold.txt").write_text("T\nF\n" * count)
    return folder


def write_text(folder: Path) -> Path:
    """Plain text in which the same words come again and again."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(4)
    lines = [" ".join(rng.choices("abcde", k=5)) + " ." for _ in range(30)]
    (folder / "text.txt").write_text("\n\n".join(lines), encoding="utf-8")
    return folder


def write_pairs(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    first, second = ("Mira sings songs.", "Mira sing songs."), ("Sol runs.", "Sol run.")
    pairs = {"agreement_1": first, "agreement_2": second}
    for name, (good, bad) in pairs.items():
        rows = [
            {"sentence_good": f"{start}{good}", "sentence_bad": f"{start}{bad}", "UID": name,
             "linguistics_term": "agreement"}
            for start in ("", "Now ", "Then ")
        ]  # fmt: skip
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def write_judged(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["x\t1\t\tMira sings.", "x\t0\t*\tMira sing.", "x\t1\t\tSol runs.", "x\t0\t*\trun Sol."]
    for part in ("train", "dev"):
        (folder / f"{part}.tsv").write_text("".join(f"{row}\n" for row in rows * 3))
    return folder


WRITERS = {
    "pos": write_pos,
    "wsd": write_wsd,
    "wic": write_wic,
    "intrinsic": write_text,
    "blimp": write_pairs,
    "acceptability": write_judged,
}
