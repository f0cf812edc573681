"""What scripts/make_golden.py ran through AllenNLP, and where its results lie."""

from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "golden" / "allennlp"
BATCHES = [
    [["The", "bank", "of", "the", "river"], ["Bank"], ["x" * 100, "é", "日本語" * 10]],
    [["Second", "batch", "here"], ["a", "b"]],
    [["Third"], ["of", "four"], ["rows", "are", "here", "now"], ["new", "row", "<S>"]],
]
VOCABULARY = ["@@PADDING@@", "The", "bank", "river", "of"]
WORD_IDS = [
    [[1, 2, 4, 1, 3], [2, 0, 0, 0, 0], [3, 3, 3, 0, 0]],
    [[1, 2, 99], [1, 1, 0]],  # 99 is not cached: AllenNLP goes back to the characters
    [[1, 0, 0, 0], [4, 3, 0, 0], [1, 2, 3, 4], [2, 3, 4, 0]],
]
RUNS: dict[str, dict[str, Any]] = {
    "zero state": {"stateful": False, "options": {}},
    "carried state": {"stateful": True, "options": {}},
    "boundaries": {"stateful": False, "options": {"keep_sentence_boundaries": True}},
    "layer norm": {"stateful": False, "options": {"do_layer_norm": True}},
    "fixed mix": {"stateful": False, "options": {"scalar_mix_parameters": [-9e10, 1.0, -9e10]}},
    "fine-tuning": {"stateful": True, "options": {"requires_grad": True}},
    "cached words": {"stateful": False, "options": {"vocab_to_cache": VOCABULARY}},
}
