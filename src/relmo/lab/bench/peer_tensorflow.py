"""bilm-tf's graph on TensorFlow 2 as a peer, by way of simple-elmo; see `peer_process.py`.

simple-elmo is licensed under the GPL: it runs in a process and an environment of its own, and
nothing of it is part of relmo.

One session is kept for all calls. simple-elmo's own `get_elmo_vectors`, unless given a session,
opens one for every call and fills in all weights again; that would be timed instead of the graph.
"""

import os
from importlib import import_module
from importlib.metadata import version
from typing import Any


class Runner:
    """The graph and its session."""

    def __init__(self, threads: int) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        tensorflow = import_module("tensorflow")  # both are unknown where relmo is developed
        self._tf, self._model = tensorflow.compat.v1, import_module("simple_elmo").ElmoModel()
        self._threads = threads
        self.versions = {
            "simple-elmo": version("simple-elmo"),
            "tensorflow": tensorflow.__version__,
        }

    def load(self, folder: str, largest: int) -> None:
        """Build the graph and fill in the weights; it has room for the states of one call."""
        self._model.load(folder, max_batch_size=largest)
        settings = self._tf.ConfigProto(
            intra_op_parallelism_threads=self._threads,
            inter_op_parallelism_threads=self._threads,
            device_count={"GPU": 0},
        )
        self._session = self._tf.Session(config=settings)
        self._session.run(self._tf.global_variables_initializer())

    def embed(self, sentences: list[list[str]]) -> object:
        """One call; the LSTMs go on from the state that the last one left."""
        ids = self._model.batcher.batch_sentences(sentences)
        layers = self._model.sentence_embeddings_op["lm_embeddings"]
        return self._session.run(layers, {self._model.sentence_character_ids: ids})

    def vectors(self, sentences: list[list[str]]) -> list[Any]:
        """All layers of each sentence, from a zero start."""
        # Only states have no name of their own. (To fill all weights in again takes long.)
        states = [each for each in self._tf.global_variables() if "/Variable" in each.name]
        assert states
        self._session.run([state.initializer for state in states])
        layers: Any = self.embed(sentences)  # (B, L + 1, T, D)
        return [layers[b, :, : len(words)].tolist() for b, words in enumerate(sentences)]
