"""Questions and comments as text for pretraining: which lines are kept, and in which documents."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "questions_and_comments.py"


def test_questions_by_article_and_comments_that_are_sentences(tmp_path):
    def article(*questions: str) -> dict:
        return {"paragraphs": [{"qas": [{"question": question}]} for question in questions]}

    squad = {"data": [article("Who came?", " What is it? "), article("no capital?", "Why")]}
    (tmp_path / "squad.json").write_text(json.dumps(squad))
    comments = [
        "I never liked it.", "Did [NAME] come?", "see http://x.y.", "so what.", "THIS IS IT!",
        '"Oh dear," she said.', "No mark",
    ]  # fmt: skip
    (tmp_path / "comments.tsv").write_text("".join(f"{text}\t2\tid\n" for text in comments))
    out = tmp_path / "text.txt"
    paths = [tmp_path / "squad.json", tmp_path / "comments.tsv", out]
    subprocess.run([sys.executable, SCRIPT, *paths], check=True)
    kept = 'Who came?\nWhat is it?\n\nI never liked it.\n"Oh dear," she said.\n'
    assert out.read_text() == kept
