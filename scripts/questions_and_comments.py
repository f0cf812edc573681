"""Questions and comments as text for pretraining, since encyclopedias and books have few of them.

    python scripts/questions_and_comments.py train-v1.1.json train.tsv OUTPUT

The questions of SQuAD's training part (CC BY-SA 4.0), a document per article, and the comments of
GoEmotions' training part (CC BY 4.0) that read as sentences: a capital at the beginning, a mark at
the end, no masked names, links, markup or words in capitals; forty to a document.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SENTENCE = re.compile(r"""(?=[A-Z"'])(?!.*(\[|http|/r/|[*<>{}\\_#]|\b[A-Z]{4,}))[^\n]*[.?!]["']?""")
COMMENTS = 40
"""Comments of a document."""


def questions(path: Path) -> Iterator[list[str]]:
    """The questions of each article."""
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        found = [qa["question"].strip() for part in article["paragraphs"] for qa in part["qas"]]
        yield [question for question in found if SENTENCE.fullmatch(question)]


def comments(path: Path) -> Iterator[list[str]]:
    """Comments that read as sentences, in documents of forty."""
    texts = (line.split("\t")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    found = [text for text in texts if SENTENCE.fullmatch(text)]
    yield from (found[first : first + COMMENTS] for first in range(0, len(found), COMMENTS))


def main() -> None:
    """Write all documents, a blank line between them."""
    squad, emotions, output = map(Path, sys.argv[1:])
    documents = [*questions(squad), *comments(emotions)]
    text = "\n\n".join("\n".join(lines) for lines in documents if lines)
    output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
