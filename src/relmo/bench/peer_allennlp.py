"""AllenNLP's ELMo as a peer. Runs in an environment of its own, where relmo is not installed.

Started with a folder (options.json, weights.hdf5) and a number of threads; answers each line of
JSON on standard input by one on standard output:

    (at the start)               {"versions": {…}, "load_seconds": …}
    {"calls": [[[word, …]]]}     {"seconds": …}                each call is one batch
    {"vectors": [[word, …]]}     {"vectors": [(L + 1, T, D)]}  of fresh sentences, as nested lists
    {"finish": true}             {"peak_mb": …}

AllenNLP 2.10 does not import on a current torch by itself; where a module `allennlp_standins` can
be found (PYTHONPATH), it comes first.
"""

import json
import os
import sys
import time
import warnings
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # whatever libraries print must not mix with the answers


def answer(values: dict[str, Any]) -> None:
    """One line of JSON."""
    answers.write(json.dumps(values) + "\n")
    answers.flush()


def peak_mb() -> int:
    """The most memory held so far; see relmo's own for why not `getrusage`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 // 10**6
    return 0


def main(folder: str, threads: int) -> None:
    """Load the model, then answer until told to finish."""
    with suppress(ImportError):
        import allennlp_standins  # noqa: F401
    import torch
    from allennlp.modules.elmo import Elmo, batch_to_ids

    torch.set_num_threads(threads)
    begin = time.perf_counter()
    elmo = Elmo(f"{folder}/options.json", f"{folder}/weights.hdf5", 1).eval()
    seconds = time.perf_counter() - begin
    versions = {name: version(name) for name in ("allennlp", "torch")}
    answer({"versions": versions, "load_seconds": round(seconds, 3)})
    for line in sys.stdin:
        asked = json.loads(line)
        with torch.no_grad():
            if "calls" in asked:
                begin = time.perf_counter()
                for sentences in asked["calls"]:
                    elmo(batch_to_ids(sentences))
                answer({"seconds": time.perf_counter() - begin})
            elif "vectors" in asked:
                elmo._elmo_lstm._elmo_lstm.reset_states()
                found = elmo._elmo_lstm(batch_to_ids(asked["vectors"]))["activations"]
                layers = torch.stack(found)[:, :, 1:]  # without <S>
                rows = enumerate(asked["vectors"])
                answer({"vectors": [layers[:, b, : len(words)].tolist() for b, words in rows]})
            else:
                answer({"peak_mb": peak_mb()})
                return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
