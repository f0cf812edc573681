"""The surface that users import is written down here; a change of it is a decision."""

import subprocess
import sys
from pathlib import Path

import relmo

ROOT = Path(__file__).parents[1]

SURFACE = [
    "Answer",
    "Argument",
    "CharCnnConfig",
    "Cluster",
    "Elmo",
    "ElmoConfig",
    "ElmoLayer",
    "Entity",
    "Frame",
    "Label",
    "Layers",
    "LstmConfig",
    "Mention",
    "Predicate",
    "Predictor",
    "RelmoError",
    "ScalarMix",
    "SemanticIndex",
    "TaggedToken",
    "Token",
    "WordTableConfig",
    "__version__",
    "errors",
    "load",
    "train",
]


def test_the_surface_is_what_is_written_here():
    assert sorted(relmo.__all__) == sorted(SURFACE)
    assert all(hasattr(relmo, name) for name in SURFACE)
    assert dir(relmo) == sorted(SURFACE)


def test_the_citation_names_the_version_and_the_day_of_its_release():
    citation, log = ((ROOT / name).read_text() for name in ("CITATION.cff", "CHANGELOG.md"))
    assert f'version: "{relmo.__version__}"\n' in citation
    day = log.split(f"## [{relmo.__version__}] - ")[1].split("\n")[0]
    assert f'date-released: "{day}"\n' in citation


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(relmo, "Elmmo")


def test_importing_relmo_imports_nothing_heavy():
    heavy = ("torch", "numpy", "h5py", "rich", "typer")
    code = f"import sys, relmo; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_everything_public_costs_under_150_ms_beyond_torch():
    """Of this process's own time: a busy machine changes nothing."""
    code = (
        "import time, torch; start = time.process_time();"
        "from relmo import Elmo, ElmoLayer, ScalarMix; print(time.process_time() - start)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    assert min(float(run.stdout) for run in runs) < 0.150


def test_importing_changes_no_environment_variable():
    code = (
        "import os; before = dict(os.environ); import relmo;"
        "from relmo import Elmo, ElmoLayer, SemanticIndex, errors; import relmo.runtime.runtime;"
        "print(dict(os.environ) == before)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "True"


def test_elmo_shows_what_it_is_for():
    """Public names of Elmo: a change of them is a decision."""
    methods = {name for name in vars(relmo.Elmo) if not name.startswith("_")}
    assert methods == {
        "from_pretrained", "untrained", "save_pretrained", "fingerprint", "to",
        "device", "precision", "has_lm", "lm",
        "tokens", "sentences", "embed", "embed_stream", "sense_vectors", "read", "encode",
        "similarity", "compare",
    }  # fmt: skip
