"""Request and response bodies, as FastAPI validates and documents them.

The schema says what the server accepts. Bounds that depend on the server, such as the largest `k`,
are written as `"x-maximum": "results"` and replaced by `resolve_bounds`; service.py checks them,
and what no schema can say, such as the number of words in all texts together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

import orjson
from fastapi.responses import Response
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from relmo.search.filters import OPERATORS, conditions
from relmo.search.index import Ranking, choose_ranking

JSON = "application/json"
LayerName = Literal["all", "mean", "top", "bottom"]
EXPECTED_TEXTS = (
    "expected a string or a list of strings; token ids depend on OpenAI's tokenizers and are "
    "not supported (in LangChain set check_embedding_ctx_length=False)"
)
EXPECTED_SENTENCE = "expected a string or a list of strings, the tokens of a sentence"


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Write JSON; floats get the fewest digits that read back as the same float32."""
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status, dict(headers or {}), JSON)


# ── validators ──────────────────────────────────────────────────────────────────────────────

_SPACES = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # str.isspace
TEXT = {"type": "string", "pattern": f"[^{_SPACES}]", "x-maxLength": "characters"}
WORD = {"type": "string", "pattern": f"^[^{_SPACES}]*$"}
SENTENCE, SCORED = (
    {
        "anyOf": [
            {"type": "string", "minLength": least, "x-maxLength": "characters"},
            {"type": "array", "items": WORD, "minItems": least, "x-maxItems": limit},
        ]
    }
    for least, limit in ((0, "sentence_tokens"), (1, "scored_tokens"))
)
SENTENCES = {"type": "array", "items": SENTENCE, "minItems": 1, "x-maxItems": "texts"}
LAYER = {"type": "integer", "minimum": 0, "x-maximum": "top_layer"}


def check_strings(value: Any, expected: str = EXPECTED_SENTENCE) -> Any:  # noqa: ANN401 - any JSON
    """Check in one message what a union of types would report in four.

    Lone surrogates are rejected: JSON escapes can express them, UTF-8 cannot encode them.
    """
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(expected)
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise ValueError("contains a lone surrogate; send valid Unicode") from None
    return value


def _check_input(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if value == "" or value == []:
        raise ValueError("expected text, got an empty value")
    if isinstance(value, list) and "" in value:
        raise ValueError(f"text {value.index('')} is empty; remove it")
    return check_strings(value, EXPECTED_TEXTS)


def _check_scored(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if value == "" or value == []:
        raise ValueError("expected a sentence, got an empty value")
    return check_strings(value)


def _check_sentences(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Report the first sentence that is wrong: a message per sentence could be millions."""
    if not isinstance(value, list) or not value:
        raise ValueError("expected a list of at least 1 sentence")
    for number, sentence in enumerate(value):
        try:
            check_strings(sentence)
        except ValueError as error:
            raise ValueError(f"sentence {number}: {error}") from None
    return value


def _as_integer(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """In JSON 3.0 is an integer too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_layers(value: Any) -> Any:  # noqa: ANN401 - any JSON
    numbers = [_as_integer(each) for each in (value if isinstance(value, list) else [value])]
    is_numbers = numbers and all(type(number) is int for number in numbers)
    if isinstance(value, str) and value in get_args(LayerName):
        return value
    if not is_numbers:
        names = ", ".join(map(repr, get_args(LayerName)))
        raise ValueError(f"expected {names}, a layer number or a list of layer numbers")
    return numbers if isinstance(value, list) else numbers[0]


def _check_where(value: dict[str, Any]) -> dict[str, Any]:
    lengths = [len(wanted) for wanted in value.values() if isinstance(wanted, list)]
    if len(value) > MAX_CONDITIONS or max(lengths, default=0) > MAX_VALUES:
        raise ValueError(
            f"expected at most {MAX_CONDITIONS} keys and {MAX_VALUES} values for each, "
            f"got {len(value):,} and {max(lengths, default=0):,}"
        )
    found = conditions(value)  # raises ConfigError, a ValueError, with the reason
    numbers = [each for one in found for each in one.values if isinstance(each, int | float)]
    if not all(-(2**63) <= number < 2**63 for number in numbers):  # JSON has one kind of number
        raise ValueError("a number exceeds 64 bits")
    return value


MAX_CONDITIONS, MAX_VALUES = 16, 100
"""Keys of a filter, and values to choose from for each: databases bound both."""
_ORDERED = [
    {"type": "string", "pattern": r"^[^\u0000]*$"},
    {"type": "number", "minimum": -(2**63), "exclusiveMaximum": 2**63},
]
_VALUE = {"anyOf": [*_ORDERED, {"type": "boolean"}, {"type": "null"}]}
WHERE = {
    "type": "object",
    "maxProperties": MAX_CONDITIONS,
    "propertyNames": {"pattern": r"^[^\u0000]+$"},
    "additionalProperties": {
        "anyOf": [
            *_VALUE["anyOf"],
            {"type": "array", "items": _VALUE, "maxItems": MAX_VALUES},
            {
                "type": "object",
                "properties": {
                    each: _VALUE if each in ("=", "!=") else {"anyOf": _ORDERED}
                    for each in OPERATORS
                },
                "additionalProperties": False,
            },
        ]
    },
    "default": {},
}
LAYERS = {
    "anyOf": [
        {"type": "string", "enum": list(get_args(LayerName))},
        LAYER,
        {"type": "array", "items": LAYER, "minItems": 1, "uniqueItems": True},
    ]
}
TEXTS = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1, "x-maxItems": "texts"}]}

Texts = Annotated[str | list[str], BeforeValidator(_check_input), WithJsonSchema(TEXTS)]
Sentence = Annotated[str | list[str], BeforeValidator(check_strings), WithJsonSchema(SENTENCE)]
ScoredSentence = Annotated[str | list[str], BeforeValidator(_check_scored), WithJsonSchema(SCORED)]
Sentences = Annotated[
    list[str | list[str]], BeforeValidator(_check_sentences), WithJsonSchema(SENTENCES)
]
Text = Annotated[str, Field(min_length=1), WithJsonSchema(TEXT)]
Query = Annotated[
    str, Field(min_length=1), WithJsonSchema({**TEXT, "x-maxLength": "query_characters"})
]
RequestedLayers = Annotated[
    LayerName | int | list[int], BeforeValidator(_check_layers), WithJsonSchema(LAYERS)
]
Integer = Annotated[int, BeforeValidator(_as_integer)]
Position = Annotated[int, Field(ge=0, le=10**6), BeforeValidator(_as_integer)]
Results = Annotated[
    int,
    Field(ge=1, json_schema_extra={"x-maximum": "results", "x-default": "default_results"}),
    BeforeValidator(_as_integer),
]
DEFAULT_RESULTS = 10
Where = Annotated[dict[str, Any], AfterValidator(_check_where), WithJsonSchema(WHERE)]


def resolve_bounds(schema: Any, bounds: Mapping[str, object]) -> Any:  # noqa: ANN401 - any JSON
    """A copy of a schema with `"maximum": 1000` instead of `"x-maximum": "results"`."""
    if isinstance(schema, list):
        return [resolve_bounds(each, bounds) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key.startswith("x-"):
            found[key.removeprefix("x-")] = bounds[value]
        else:
            found[key] = resolve_bounds(value, bounds)
    return found


class Body(BaseModel):
    """A request body; unknown fields are errors, and 0 is not false."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


# ── errors and status ───────────────────────────────────────────────────────────────────────


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The body of every error response."""

    error: ErrorDetail


class Health(BaseModel):
    """The process is running."""

    status: Literal["ok"]


class Ready(BaseModel):
    """The server accepts requests."""

    status: Literal["ready"]
    model: str
    num_layers: int
    width: int
    has_substitutes: bool
    has_index: bool


# ── OpenAI's API ────────────────────────────────────────────────────────────────────────────


class EmbeddingsBody(Body):
    """POST /v1/embeddings."""

    input: Texts = Field(description="One text or a list; a text may contain several sentences.")
    model: Annotated[str, Field(json_schema_extra={"x-enum": "models"})] | None = Field(
        None, description="Name of the served model."
    )
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="base64: little-endian float32."
    )
    dimensions: Annotated[Integer, Field(json_schema_extra={"x-enum": "widths"})] | None = Field(
        None, description="Must equal the model's width if given."
    )
    user: str | None = Field(None, description="Accepted for compatibility; not used, not logged.")


class Usage(BaseModel):
    """Number of words read."""

    prompt_tokens: int
    total_tokens: int


class Embedding(BaseModel):
    """A unit-length vector for one text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingList(BaseModel):
    """Vectors in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class ModelInfo(BaseModel):
    """A served model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """The served models: always one."""

    object: Literal["list"]
    data: list[ModelInfo]


# ── relmo's own routes ──────────────────────────────────────────────────────────────────────


class TokensBody(Body):
    """POST /embed_tokens."""

    sentences: Sentences = Field(
        description="Strings, which the model's tokenizer splits, or token lists."
    )
    layers: RequestedLayers = Field("all", description="Layer 0 is the token layer.")


class PlacedToken(BaseModel):
    """A token, with character offsets if its sentence was sent as a string."""

    text: str
    start: int | None
    end: int | None


class SentenceVectors(BaseModel):
    """Tokens of a sentence and their vectors: (layers, tokens, width)."""

    tokens: list[PlacedToken]
    vectors: list[list[list[float]]]


NOTE: Any = Field(None, description="Present if the text is in a script unknown to the model.")


class TokenVectors(BaseModel):
    """Vectors of every token of every sentence."""

    model: str
    width: int
    layers: list[int | Literal["mean"]]
    sentences: list[SentenceVectors]
    usage: Usage
    note: str | None = NOTE


class SubstitutesBody(Body):
    """POST /substitutes."""

    sentence: Sentence
    position: Position = Field(description="Index of the word, from 0.")
    k: Results = DEFAULT_RESULTS


class Substitute(BaseModel):
    """A word and its score: log p(word | left) + log p(word | right) - log p(word)."""

    word: str
    score: float


class Substitutes(BaseModel):
    """The most likely words, best first; the word at the position itself is ignored."""

    tokens: list[str]
    position: int
    substitutes: list[Substitute]


class SurprisalBody(Body):
    """POST /surprisal."""

    sentence: ScoredSentence = Field(
        description="A string is split by the model's tokenizer, as one sentence; a list has its "
        "tokens (not regions with punctuation attached)."
    )


class WordBits(BaseModel):
    """How unexpected a word is, in bits: by what stands before it, after it, and by both."""

    token: str
    surprisal: float
    surprisal_backward: float
    surprisal_both: float
    entropy: float
    known: bool


class Surprisal(BaseModel):
    """The words of a sentence in order, as `relmo surprisal` has them."""

    words: list[WordBits]
    note: str | None = NOTE


class SensesBody(Body):
    """POST /senses."""

    word: Text = Field(description="In any case; the tokenizer may split it.")
    text: Text = Field(description="Any number of sentences; a line ends one.")


class Excerpt(BaseModel):
    """A place of the word: what stands before it, the word, and what stands after it."""

    left: str
    word: str
    right: str


class SensePoint(Excerpt):
    """A place of the word on the two main axes of all, and the number of its sense, from 1."""

    x: float
    y: float
    sense: int


class SenseInText(BaseModel):
    """A sense: its share of the places, the words that fit these best, the best examples."""

    share: float
    places: int
    substitutes: list[str]
    examples: list[Excerpt]


class Senses(BaseModel):
    """The senses of a word in a text, the most frequent first."""

    word: str
    places: int
    senses: list[SenseInText]
    points: list[SensePoint]
    note: str | None = Field(None, description="What to keep in mind: few places, unknown script.")


class ChangeBody(Body):
    """POST /change."""

    word: Text = Field(description="In any case; the tokenizer may split it.")
    before: Text = Field(description="A text; blank lines, or else lines, part its passages.")
    after: Text = Field(description="The other text.")
    align: bool = Field(False, description="Take off what differs everywhere between the two.")


class MeasuredChange(BaseModel):
    """A measure of change and the p-value of its permutation test, null with too few passages."""

    value: float
    p: float | None


class ChangedSense(BaseModel):
    """A sense: its shares of the places in each text, and the words that fit best."""

    before: float
    after: float
    substitutes: list[str]


class ChangePoint(SensePoint):
    """A place of the word in one of the texts."""

    text: Literal["before", "after"]


class Change(BaseModel):
    """How a word's use differs between two texts."""

    word: str
    before: int
    after: int
    passages_before: int = Field(description="Of these places; each is assigned as a whole.")
    passages_after: int
    permutations: int
    seed: int
    apd: MeasuredChange
    prt: MeasuredChange
    jsd: MeasuredChange
    senses: list[ChangedSense]
    points: list[ChangePoint]
    note: str | None = NOTE


class SearchBody(Body):
    """POST /search."""

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["by", "hybrid"]}})

    query: Query
    k: Results = DEFAULT_RESULTS
    by: Ranking = Field(
        "hybrid", description="Rank by words and vectors together, by vectors, or by words (BM25)."
    )
    hybrid: bool = Field(
        True,
        description="Earlier name of `by`, not given with it: true is hybrid, false is vectors.",
        json_schema_extra={"deprecated": True},
    )
    where: Where = Field(
        {},
        description='Conditions on metadata: {"year": 1958}, {"lang": ["en", "de"]} (any of '
        'these), {"year": {">=": 1950, "<": 1960}}.',
    )
    documents: bool = Field(False, description="Return only the best passage of each document.")
    copies: bool = Field(False, description="Return near-copies of better hits too.")
    explain: bool = Field(False, description="Say why each passage was found.")

    @model_validator(mode="after")
    def _check_ranking(self) -> Self:
        self.ranking()
        return self

    def ranking(self) -> Ranking:
        """What to rank by, under either name."""
        sent = self.model_fields_set
        return choose_ranking(
            self.by if "by" in sent else None, self.hybrid if "hybrid" in sent else None
        )


class HitExplanation(BaseModel):
    """Why a passage was found; start and end of spans are code points of its text."""

    sentence: tuple[int, int] = Field(description="The sentence that matches best.")
    words: list[tuple[int, int]] = Field(description="Words that match a word of the query.")
    by_words: float = Field(description="Share of the score that comes from words.")
    by_meaning: float = Field(description="Share of the score that comes from vectors.")


class SearchHit(BaseModel):
    """A passage; an index may add fields."""

    model_config = ConfigDict(extra="allow")

    text: str
    score: float
    document: str
    source: str | None = None
    line: int | None = None
    start: int | None = None
    end: int | None = None
    meta: dict[str, Any] = {}
    copies: int = Field(0, description="Near-copies of it that were left out.")
    explanation: HitExplanation | None = Field(None, description="Present if it was asked for.")


class SearchHits(BaseModel):
    """Passages, best first."""

    query: str
    hits: list[SearchHit]


class WordMapBody(Body):
    """POST /word_map."""

    word: Text
    sentences: Sentences
    layer: Annotated[Integer, WithJsonSchema(LAYER)] | None = Field(
        None, description="Layer number from 0; default: mean of all layers."
    )
    senses: bool = Field(False, description="Compare sense vectors instead of layers.")


class Point(BaseModel):
    """One occurrence of the word."""

    sentence: int
    position: int
    text: str
    x: float
    y: float
    cluster: int


class WordMapAnswer(BaseModel):
    """Occurrences of a word on their first two principal components."""

    points: list[Point]
    shares: list[float]
    note: str | None = NOTE
