"""Request and response bodies of task models, made for the texts and results of each task.

    {"inputs": [{"question": "…", "text": "…"}]}  ->  {"model": …, "task": …, "results": [{…}]}

A task that reads one text takes plain strings too. The types of results are those of
`relmo.tasks.results`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, create_model

from relmo.serve.schemas import JSON, Body, check_strings
from relmo.tasks.results import (
    Answer,
    Argument,
    Cluster,
    Entity,
    Frame,
    Label,
    Mention,
    Predicate,
    TaggedToken,
    to_json,
)

TEXT = {"type": "string", "x-maxLength": "characters"}
"""Without words its result is null or empty."""


class TaskInfo(BaseModel):
    """A served task model."""

    name: str = Field(description="The last part of its route, /predict/NAME.")
    task: str
    texts: list[str] = Field(description="Names of the texts of an input; offsets are of the last.")
    result: str = Field(description="What its results are called, such as entities.")
    labels: list[str] = Field(description="Labels or tags that results may have.")
    elmo: str | None = Field(description="Name of the ELMo model that it reads with.")


class TaskList(BaseModel):
    """The served task models, which may be none."""

    tasks: list[TaskInfo]


IN_ORDER = "One for each input, in order."
PLACED: Any = Field(
    description=f"{IN_ORDER} start and end count Unicode code points of the text as it was sent, "
    "from 0: text[start:end] in Python is the result's own text. A score is the probability that "
    "a result is right."
)


class Predictions(BaseModel):
    """What a task model finds in each input: any JSON, if the task is not relmo's own."""

    model: str
    task: str
    results: list[Any] = Field(description=IN_ORDER)


class EntityPredictions(Predictions):
    """The entities of each text."""

    results: list[list[Entity]] = PLACED


class TokenPredictions(Predictions):
    """The words of each text and their tags."""

    results: list[list[TaggedToken]] = PLACED


class FramePredictions(Predictions):
    """The predicates of each text and their arguments."""

    results: list[list[Frame]] = PLACED


class ClusterPredictions(Predictions):
    """The mentions of each text, those of the same thing together."""

    results: list[list[Cluster]] = PLACED


class AnswerPredictions(Predictions):
    """The answer to each question; null if the text has none."""

    results: list[Answer | None] = PLACED


class LabelPredictions(Predictions):
    """The label of each input, and the probability of each label; null without words."""

    results: list[Label | None] = Field(description=IN_ORDER)


class LabelsPredictions(Predictions):
    """The labels of each input, any number of them."""

    results: list[list[Label]] = Field(description=IN_ORDER)


RESULTS: dict[str, tuple[type[Predictions], Any]] = {
    "entities": (EntityPredictions, [Entity("Ada Lovelace", "PER", 0, 12, 0.99)]),
    "tokens": (TokenPredictions, [TaggedToken("Ada", "PROPN", 0, 3, 0.99)]),
    "frames": (
        FramePredictions,
        [Frame(Predicate("lived", 13, 18, 0.98), (Argument("in London", "LOC", 19, 28, 0.9),))],
    ),
    "clusters": (
        ClusterPredictions,
        [Cluster((Mention("Ada Lovelace", 0, 12, 0.99), Mention("She", 30, 33, 0.98)))],
    ),
    "answer": (AnswerPredictions, Answer("London", 22, 28, 0.9)),
    "label": (LabelPredictions, Label("history", 0.9, {"history": 0.9, "travel": 0.1})),
    "labels": (LabelsPredictions, [Label("history", 0.9), Label("travel", 0.6)]),
}
"""Name of a result -> the response body, and an example of the result of `TEXT_EXAMPLE`."""
PAIR_LABEL = Label("entailment", 0.9, {"entailment": 0.9, "neutral": 0.08, "contradiction": 0.02})
TEXT_EXAMPLE = "Ada Lovelace lived in London. She wrote programs."
EXAMPLES = {
    "question": "Where did Ada Lovelace live?",
    "hypothesis": "Ada Lovelace lived in a city.",
}
"""Name of a text -> an example of it; others are `TEXT_EXAMPLE`."""


@cache
def body_of(names: tuple[str, ...]) -> type[Body]:
    """The request body of a task that reads the texts of these names.

    Its `inputs` are tuples of texts, in the order of the names.
    """
    item: dict[str, Any] = {
        "type": "object",
        "properties": dict.fromkeys(names, TEXT),
        "required": list(names),
        "additionalProperties": False,
    }
    if len(names) == 1:
        item = {"anyOf": [TEXT, item]}
    schema = {"type": "array", "items": item, "minItems": 1, "x-maxItems": "texts"}
    example = {name: EXAMPLES.get(name, TEXT_EXAMPLE) for name in names}
    kind = Annotated[
        list[tuple[str, ...]], BeforeValidator(_check_inputs(names)), WithJsonSchema(schema)
    ]
    about = Field(description=f"Each is {_wanted(names)}.", examples=[[example]])
    made: type[Body] = create_model(
        f"{''.join(name.title() for name in names)}Inputs",
        __base__=Body,
        __doc__="POST /predict/NAME.",
        inputs=(kind, about),
    )
    return made


def _check_inputs(names: Sequence[str]) -> Callable[[Any], Any]:
    """What turns JSON into tuples of texts; it reports the first input that is wrong."""
    wanted = _wanted(names)

    def check(value: Any) -> Any:  # noqa: ANN401 - any JSON
        if not isinstance(value, list) or not value:
            raise ValueError(f"expected a list of at least 1 input, each {wanted}")
        return [texts(each, number) for number, each in enumerate(value)]

    def texts(given: Any, number: int) -> tuple[str, ...]:  # noqa: ANN401 - any JSON
        found: list[Any] = [given] if len(names) == 1 else [None]
        if isinstance(given, dict) and given.keys() == set(names):
            found = [given[name] for name in names]
        try:
            return tuple(check_strings(found, f"expected {wanted}"))
        except ValueError as error:
            raise ValueError(f"input {number}: {error}") from None

    return check


def _wanted(names: Sequence[str]) -> str:
    """What an input is: "a string, or an object with the string text"."""
    if len(names) == 1:
        return f"a string, or an object with the string {names[0]}"
    return f"an object with the strings {' and '.join(names)}"


def response_of(result: str) -> type[Predictions]:
    """The response body for results of this name; of an unknown one they are any JSON."""
    return RESULTS[result][0] if result in RESULTS else Predictions


def example_of(result: str, model: str, task: str) -> dict[str, Any]:
    """What OpenAPI says of the response, for `responses`."""
    if result not in RESULTS:
        return {}
    results = [to_json(PAIR_LABEL if task == "snli" else RESULTS[result][1])]
    example = {"model": model, "task": task, "results": results}
    return {"content": {JSON: {"example": example}}}
