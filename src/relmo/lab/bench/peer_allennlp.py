"""AllenNLP's ELMo as a peer. Runs in an environment of its own; see `peer_process.py`.

AllenNLP 2.10 does not import on a current torch by itself; where a module `allennlp_standins` can
be found (PYTHONPATH), it comes first.
"""

from contextlib import suppress
from importlib.metadata import version
from typing import Any


class Runner:
    """AllenNLP's `Elmo`, called as its users do."""

    def __init__(self, threads: int) -> None:
        with suppress(ImportError):
            import allennlp_standins  # noqa: F401
        import torch
        from allennlp.modules import elmo

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self._torch, self._library = torch, elmo
        self.versions = {name: version(name) for name in ("allennlp", "torch")}

    def load(self, folder: str, largest: int) -> None:
        """Read the model; it takes calls of any size."""
        files = f"{folder}/options.json", f"{folder}/weights.hdf5"
        self._elmo = self._library.Elmo(*files, 1).eval()

    def embed(self, sentences: list[list[str]]) -> object:
        """One call; the LSTMs go on from the state that the last one left."""
        return self._elmo(self._library.batch_to_ids(sentences))

    def vectors(self, sentences: list[list[str]]) -> list[Any]:
        """All layers of each sentence, from a zero start."""
        bilm = self._elmo._elmo_lstm
        bilm._elmo_lstm.reset_states()
        found = bilm(self._library.batch_to_ids(sentences))["activations"]
        layers = self._torch.stack(found)[:, :, 1:]  # (L + 1, B, T, D), without <S>
        return [layers[:, b, : len(words)].tolist() for b, words in enumerate(sentences)]
