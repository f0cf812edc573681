"""Named entities of several open sets: one format, one set of types, three parts."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "open_ner_data.py"
UNER = "# newdoc id = d{n}\n# text = x\n1\tMira\tB-PER\t-\tann\n2\tsang\tO\t-\t-\n\n"
FILES = {
    "uner-ewt/dev.iob2": "".join(UNER.format(n=n) for n in range(40)),
    "uner-ewt/test.iob2": "1\tOslo\tB-LOC\t-\tann\n",
    "wikigold/wikigold.conll": "The I-ORG\nMad I-ORG\n\nJapanese I-MISC\n",
    "wnut17/train.conll": "Acme\tB-corporation\n \tO\nrun\tO\n",
    "btc/a.conll": "@\tB-PER\nada\tB-PER\n#Oslo\tB-LOC\n",
    "crossner/ai/train.conll": "Ada\tB-researcher\nBayes\tB-algorithm\nrule\tI-algorithm\n",
}


def test_sets_become_one_with_four_types(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    out = tmp_path / "out"
    subprocess.run([sys.executable, SCRIPT, tmp_path / "in", out], check=True)
    train, dev, test = ((out / f"{part}.conll").read_text() for part in ("train", "dev", "test"))
    mira = "Mira\tB-PER\nsang\tO\n"
    assert train.count(mira) % 5 == 0  # the small set is read five times
    assert train.count(mira) // 5 + dev.count(mira) == 40
    assert 5 < dev.count(mira) < 35
    assert test == "Oslo\tB-LOC\n"
    for sentence in (
        "The\tB-ORG\nMad\tI-ORG\n",
        "Japanese\tB-MISC\n",
        "Acme\tB-ORG\nrun\tO\n",
        "@\tO\nada\tO\n#Oslo\tB-LOC\n",
        "Ada\tB-PER\nBayes\tO\nrule\tO\n",
    ):
        assert f"\n\n{sentence}" in train
    silver = tmp_path / "silver.conll"
    silver.write_text("Ada\tS-PER\nDr.\tB-PER\nMira\tI-PER\nSol\tE-PER\n\nOslo\tS-LOC\n\nNo\tO\n")
    subprocess.run([sys.executable, SCRIPT, tmp_path / "in", out, silver], check=True)
    train = (out / "train.conll").read_text()
    names = "\n\nAda\tB-PER\nDr.\tO\nMira\tB-PER\nSol\tI-PER\n"
    lower = "\n\nada\tB-PER\ndr.\tO\nmira\tB-PER\nsol\tI-PER\n"
    assert train.endswith(f"{names}\nOslo\tB-LOC\n\nNo\tO{lower}\nOSLO\tB-LOC\n")
    assert mira in train
    assert "Mad" not in train, "the other sets are left out"
