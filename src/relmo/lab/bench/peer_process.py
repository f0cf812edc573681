"""The process in which one library loads a model and embeds: relmo's own, or a peer's.

It runs in the library's own environment, where relmo may not be installed, so it imports only the
standard library and, when its runner is made, the library. It is started with a runner's name, a
model, a number of threads, the largest number of sentences per call and a precision; each line of
JSON on standard input is answered by one on standard output:

    (at the start)               {"versions": {…}, "import_seconds": …, "load_seconds": …, …}
    {"calls": [[[word, …]]]}     {"seconds": …}                each call is one batch
    {"vectors": [[word, …]]}     {"vectors": [(L + 1, T, D)]}  from a zero state, as nested lists
    {"finish": true}             {"peak_mb": …}

A process that fails exits; the last line on standard error gives the reason.
"""

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from textwrap import shorten
from typing import Any, Protocol

Sentences = list[list[str]]


class Runner(Protocol):
    """A library that embeds; made with the number of threads, which imports it."""

    versions: dict[str, str]

    def load(self, model: str, largest: int, precision: str) -> None:
        """Load the model; calls will have at most `largest` sentences."""

    def embed(self, sentences: Sentences) -> object:
        """One call as the library's users make it; the result is ignored."""

    def vectors(self, sentences: Sentences) -> list[Any]:
        """All layers of each sentence, (L + 1, T, D), from a zero state, as nested lists."""


class _Relmo:
    """relmo in a fresh process, for its load time and peak memory."""

    def __init__(self, threads: int) -> None:
        import_module("torch").set_num_threads(threads)
        self._library = import_module("relmo.elmo")
        self.versions = {name: version(name) for name in ("relmo", "torch")}

    def load(self, model: str, largest: int, precision: str) -> None:
        options = {"precision": precision, "device": "cpu", "start": "zero"}
        self._elmo = self._library.Elmo.from_pretrained(model, **options)

    def embed(self, sentences: Sentences) -> object:
        return self._elmo.embed(sentences)

    def vectors(self, sentences: Sentences) -> list[Any]:
        return [layers.tolist() for layers in self._elmo.embed(sentences)]


class _AllenNlp:
    """AllenNLP's `Elmo`.

    AllenNLP 2.10 cannot be imported with a current torch by itself; a module `allennlp_standins`
    on PYTHONPATH is imported first.
    """

    def __init__(self, threads: int) -> None:
        with suppress(ImportError):
            import_module("allennlp_standins")
        self._torch, self._library = import_module("torch"), import_module("allennlp.modules.elmo")
        self._torch.set_num_threads(threads)
        self._torch.set_grad_enabled(False)  # as a careful user would
        self.versions = {name: version(name) for name in ("allennlp", "torch")}

    def load(self, model: str, largest: int, precision: str) -> None:
        files = f"{model}/options.json", f"{model}/weights.hdf5"
        self._elmo = self._library.Elmo(*files, 1).eval()  # one mix, no dropout

    def embed(self, sentences: Sentences) -> object:
        """The LSTMs continue from the state that the last call left."""
        return self._elmo(self._library.batch_to_ids(sentences))

    def vectors(self, sentences: Sentences) -> list[Any]:
        bilm = self._elmo._elmo_lstm
        bilm._elmo_lstm.reset_states()
        found = bilm(self._library.batch_to_ids(sentences))["activations"]
        layers = self._torch.stack(found)[:, :, 1:]  # (L + 1, B, T, D), without <S>
        return [layers[:, b, : len(words)].tolist() for b, words in enumerate(sentences)]


class _TensorFlow:
    """bilm-tf's graph on TensorFlow 2, through simple-elmo.

    simple-elmo is licensed under the GPL: it runs in a process and an environment of its own, and
    relmo contains nothing of it. One session serves all calls: simple-elmo's `get_elmo_vectors`
    opens a session and loads all weights on every call, which would be timed instead of the graph.
    """

    def __init__(self, threads: int) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        tensorflow = import_module("tensorflow")
        self._tf, self._model = tensorflow.compat.v1, import_module("simple_elmo").ElmoModel()
        self._threads = threads
        versions = {"simple-elmo": version("simple-elmo"), "tensorflow": tensorflow.__version__}
        self.versions: dict[str, str] = versions

    def load(self, model: str, largest: int, precision: str) -> None:
        """Build the graph, with room for the states of the largest call, and load the weights."""
        self._model.load(model, max_batch_size=largest)
        settings = self._tf.ConfigProto(
            intra_op_parallelism_threads=self._threads,
            inter_op_parallelism_threads=self._threads,
            device_count={"GPU": 0},  # the benchmark is of CPUs
        )
        self._session = self._tf.Session(config=settings)
        self._session.run(self._tf.global_variables_initializer())

    def embed(self, sentences: Sentences) -> object:
        """The LSTMs continue from the state that the last call left."""
        ids = self._model.batcher.batch_sentences(sentences)
        layers = self._model.sentence_embeddings_op["lm_embeddings"]
        return self._session.run(layers, {self._model.sentence_character_ids: ids})

    def vectors(self, sentences: Sentences) -> list[Any]:
        # Only states have no name of their own. (Loading all weights again takes long.)
        states = [each for each in self._tf.global_variables() if "/Variable" in each.name]
        assert states
        self._session.run([state.initializer for state in states])
        layers: Any = self.embed(sentences)  # (B, L + 1, T, D)
        return [layers[b, :, : len(words)].tolist() for b, words in enumerate(sentences)]


RUNNERS: dict[str, Callable[[int], Runner]] = {
    "relmo": _Relmo,
    "allennlp": _AllenNlp,
    "tensorflow": _TensorFlow,
}


def main(name: str, model: str, threads: int, largest: int, precision: str) -> None:
    """Load the model, then answer one line after the other."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    begin = time.perf_counter()
    runner = RUNNERS[name](threads)
    imported, before = time.perf_counter(), peak_mb()
    runner.load(model, largest, precision)
    facts = {
        "versions": runner.versions,
        "import_seconds": round(imported - begin, 3),
        "load_seconds": round(time.perf_counter() - imported, 3),
        "peak_mb_before_loading": before,
    }
    answers.write(json.dumps(facts) + "\n")
    for request in map(json.loads, sys.stdin):
        begin = time.perf_counter()
        for sentences in request.get("calls", ()):
            runner.embed(sentences)
        found: dict[str, Any] = {"seconds": time.perf_counter() - begin}
        if "vectors" in request:
            found = {"vectors": runner.vectors(request["vectors"])}
        elif "finish" in request:
            found = {"peak_mb": peak_mb()}
        answers.write(json.dumps(found) + "\n")


def peak_mb() -> int:
    """Peak resident memory of this process in megabytes.

    Linux reports it for this program alone; `getrusage` also counts the time before `exec`, when
    the process was as large as the parent that started it.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 // 10**6
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 10**6


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    try:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    except Exception as error:
        sys.exit(shorten(f"{type(error).__name__}: {error}", 300))  # messages may span many lines
