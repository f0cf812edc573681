"""The peers of a run together: one that is missing or breaks is reported and left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from relmo.elmo import Elmo
from relmo.lab.bench.cases import Case
from relmo.lab.bench.peers import Peer, PeerMissing, export, max_difference, parse_peer
from relmo.lab.bench.sentences import Words
from relmo.lab.bench.speed import Book


class PeerGroup:
    """Running peers.

    Args:
        wanted: NAME=PYTHON of each.
        model: name or folder of the model they shall load.
        stack: ends them.
    """

    def __init__(self, wanted: Sequence[str], model: str, stack: ExitStack) -> None:
        self.facts: dict[str, dict[str, Any]] = {}
        """What is known of each, as JSON holds it."""
        self._running: dict[str, Peer] = {}
        if not wanted:
            return
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="relmo-bench-"))) / "model"
        for text in wanted:
            name, python = parse_peer(text)
            try:
                if not folder.exists():
                    export(model, folder)
                peer = Peer(name, python, folder, torch.get_num_threads())
            except PeerMissing as why:
                self.facts[name] = {"missing": str(why)}
                continue
            stack.callback(peer.close)
            self._running[name] = peer
            self.facts[name] = dict(peer.facts)

    def compare(self, elmo: Elmo, sentences: Sequence[Words]) -> None:
        """How far their vectors are from ours."""
        ours = elmo.embed(sentences) if self._running else []

        def difference(name: str, peer: Peer) -> None:
            self.facts[name]["max_difference"] = max_difference(ours, peer.vectors(sentences))
            self.facts[name]["compared_in"] = elmo.precision

        self._each(difference)

    def measure(self, book: Book, case: Case, keep: bool) -> None:
        """One case by each."""
        self._each(lambda name, peer: book.add(name, "none", case, peer.seconds, keep=keep))

    def finish(self, book: Book) -> None:
        """Ask for their peak memory; a peer that broke on the way has no figures."""
        self._each(lambda name, peer: self.facts[name].update(peer.finish()))
        for name in self.facts.keys() - self._running.keys():
            book.forget(name)

    def _each(self, work: Callable[[str, Peer], None]) -> None:
        for name, peer in list(self._running.items()):
            try:
                work(name, peer)
            except PeerMissing as why:
                self.facts[name] = {"missing": str(why)}
                del self._running[name]
