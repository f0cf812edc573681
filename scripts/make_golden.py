"""Create tests/golden/allennlp: a tiny official model and the vectors AllenNLP 2.10.1 computes.

Run it in an environment with AllenNLP (its pinned requirements conflict with current libraries), in
the root of the repository:

    python scripts/make_golden.py
"""

import sys
from pathlib import Path

import numpy as np
import torch
from allennlp.modules.elmo import Elmo, batch_to_ids

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.golden import BATCHES, FOLDER, RUNS, VOCABULARY, WORD_IDS
from tests.support.official import write_official

MIX = [0.5, -0.3, 0.1]


def main() -> None:
    """Write the model and one array per run, batch and output."""
    write_official(FOLDER, highways=2, scale=1.5, seed=7)
    found: dict[str, np.ndarray] = {}
    for name, run in RUNS.items():
        elmo = make(run["options"])
        for b, batch in enumerate(BATCHES):
            if not run["stateful"]:
                elmo = make(run["options"])
            words = torch.tensor(WORD_IDS[b]) if "vocab_to_cache" in run["options"] else None
            output = elmo(batch_to_ids(batch), words)
            for k, vectors in enumerate(output["elmo_representations"]):
                found[f"{name}/{b}/{k}"] = vectors.detach().numpy()
            found[f"{name}/{b}/mask"] = output["mask"].numpy()
    np.savez_compressed(FOLDER / "expected.npz", **found)
    print(f"{len(found)} arrays, vocabulary of {len(VOCABULARY)}")


def make(options: dict) -> Elmo:
    """AllenNLP's module with two mixes, of which the second is not the mean."""
    files = (str(FOLDER / "options.json"), str(FOLDER / "weights.hdf5"))
    elmo = Elmo(*files, 2, **options).eval()
    if "scalar_mix_parameters" not in options:
        with torch.no_grad():
            for parameter, value in zip(elmo.scalar_mix_1.scalar_parameters, MIX, strict=True):
                parameter.fill_(value)
            elmo.scalar_mix_1.gamma.fill_(0.7)
    return elmo


if __name__ == "__main__":
    main()
