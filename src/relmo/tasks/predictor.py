"""A trained task model as a function: texts in, typed results out.

ner = relmo.load("relmo-en-ner")
ner("Ada Lovelace lived in London.")            # [Entity(text="Ada Lovelace", label="PER", …), …]
ner(["Ada left.", "Charles stayed."])           # a list of such lists
for entities in ner(open("news.txt")): ...      # a stream of any length
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from relmo.elmo import Elmo
from relmo.errors import TextError
from relmo.runtime.runtime import PrecisionChoice
from relmo.tasks.installed import find_task_model
from relmo.tasks.labelled import AnyTask
from relmo.tasks.run import load_task

Item = TypeVar("Item")
WINDOW = 256
"""Texts of a stream that are read together, so that sentences of similar length share a batch."""


class Predictor:
    """A trained task model; call it with a text, a list of texts or a stream of them.

    A task that reads two texts takes them as two arguments, `qa(question, text)`, or as pairs in a
    list. Long texts are cut into sentences, all of which are read.
    """

    def __init__(self, task: AnyTask, name: str) -> None:
        self.task, self.name = task, name

    def __call__(self, texts: str | Iterable[Any], *others: str) -> Any:  # noqa: ANN401
        """The results of a text; a list of them for a list; an iterator for any other iterable.

        Each result has its score, and offsets into the text as given (the last one of several).
        """
        if others or isinstance(texts, str):
            (found,) = self.answer([(texts, *others) if others else texts])
            return found
        if isinstance(texts, bytes | Mapping | Set) or not isinstance(texts, Iterable):
            raise TextError(
                f"{self.name} expected a string, a list or a stream of inputs, got {texts!r:.80}"
            )
        if isinstance(texts, list | tuple):
            checked = [self._texts(each, number) for number, each in enumerate(texts)]
            return list(self.stream(checked))
        return self.stream(texts)

    def stream(self, inputs: Iterable[Any], window: int = WINDOW) -> Iterator[Any]:
        """The results of each input, in order, read some at a time.

        If an input cannot be read, the results of those before it come first.
        """
        checked = (self._texts(each, number) for number, each in enumerate(inputs))
        for part in in_parts(checked, window):
            yield from self.answer(part)

    def answer(self, inputs: Sequence[Any]) -> list[Any]:
        """The results of some inputs, all read together."""
        examples = self.read(inputs)
        return self.join(examples, self.task.answer(list(chain.from_iterable(examples))))

    def read(self, inputs: Sequence[Any]) -> list[list[Any]]:
        """The examples, such as sentences, of each input; a task may use its model for this."""
        return self.task.read_inputs([self._texts(each) for each in inputs])

    def join(self, examples: Sequence[Sequence[Any]], answers: Iterable[list[Any]]) -> list[Any]:
        """The results of each input, from the task's answers to the examples of all of them."""
        found = iter(answers)
        joined = [list(chain.from_iterable(islice(found, len(each)))) for each in examples]
        if not self.task.has_one_result:
            return joined
        return [max(each, key=_score) if each else None for each in joined]

    def __repr__(self) -> str:
        """`Predictor('relmo-en-ner', text -> entities)`."""
        reads = ", ".join(self.task.text_names)
        return f"{type(self).__name__}({self.name!r}, {reads} -> {self.task.result_name})"

    def _texts(self, given: Any, number: int | None = None) -> tuple[str, ...]:  # noqa: ANN401
        """The texts of one input, checked; its number is that in a list or stream."""
        names = self.task.text_names
        texts = (given,) if isinstance(given, str) else given
        is_right = isinstance(texts, tuple | list) and len(texts) == len(names)
        if is_right and all(isinstance(text, str) for text in texts):
            return tuple(texts)
        wanted = f"a pair of strings ({', '.join(names)})" if len(names) > 1 else "a string"
        where = "" if number is None else f" {number} (counted from 0)"
        raise TextError(f"{self.name} expected {wanted} as input{where}, got {given!r:.80}")


def in_parts(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of so many items; what came before a fault is handed out before it is raised."""
    waiting = iter(items)
    while True:
        part: list[Item] = []
        try:
            part.extend(islice(waiting, size))
        except Exception:
            if part:
                yield part
            raise
        if not part:
            return
        yield part


def _score(result: Any) -> float:  # noqa: ANN401 - of a task's own type
    return float(getattr(result, "score", 0.0))


def load(
    name: str | Path,
    *,
    elmo: Elmo | str | Path | None = None,
    device: str | None = None,
    precision: PrecisionChoice = "float32",
) -> Predictor:
    """A trained task model, ready to be called.

    Args:
        name: of an installed model, such as "relmo-en-ner", or the folder of a run.
        elmo: the ELMo model, its name or its folder; by default the one it was trained with.
        device: "cpu", "cuda" …; by default, a GPU if there is one.
        precision: of ELMo's matrix products: "float32", "bfloat16" or "int8".
    """
    from relmo.tasks.encoder.task import EncoderTask
    from relmo.tasks.encoder.text_encoder import TextEncoder  # it imports this module

    task = load_task(find_task_model(name), elmo=elmo, device=device, precision=precision)
    kind = TextEncoder if isinstance(task, EncoderTask) else Predictor
    return kind(task, Path(name).name)
