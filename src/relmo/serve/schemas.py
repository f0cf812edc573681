"""Request and response bodies, as FastAPI validates and documents them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import orjson
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from relmo.search.filters import conditions

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


def _check_strings(value: Any, expected: str = EXPECTED_SENTENCE) -> Any:  # noqa: ANN401 - any JSON
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
    return _check_strings(value, EXPECTED_TEXTS)


def _check_layers(value: Any) -> Any:  # noqa: ANN401 - any JSON
    numbers = value if isinstance(value, list) else [value]
    is_numbers = numbers and all(type(number) is int for number in numbers)
    if value not in get_args(LayerName) and not is_numbers:
        names = ", ".join(map(repr, get_args(LayerName)))
        raise ValueError(f"expected {names}, a layer number or a list of layer numbers")
    return value


def _check_where(value: dict[str, Any]) -> dict[str, Any]:
    conditions(value)  # raises ConfigError, a ValueError, with the reason
    return value


Texts = Annotated[str | list[str], BeforeValidator(_check_input)]
Sentence = Annotated[str | list[str], BeforeValidator(_check_strings)]
Sentences = Annotated[list[Sentence], Field(min_length=1)]
NonEmpty = Annotated[str, Field(min_length=1)]
RequestedLayers = Annotated[LayerName | int | list[int], BeforeValidator(_check_layers)]
Results = Annotated[int, Field(ge=1, le=10**6)]


class Body(BaseModel):
    """A request body; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


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
    model: str | None = Field(None, description="Name of the served model.")
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="base64: little-endian float32."
    )
    dimensions: int | None = Field(None, description="Must equal the model's width if given.")
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


class TokenVectors(BaseModel):
    """Vectors of every token of every sentence."""

    model: str
    width: int
    layers: list[int | Literal["mean"]]
    sentences: list[SentenceVectors]
    usage: Usage


class SubstitutesBody(Body):
    """POST /substitutes."""

    sentence: Sentence
    position: int = Field(ge=0, le=10**6, description="Index of the word, from 0.")
    k: Results = 10


class Substitute(BaseModel):
    """A word and its score: log p(word | left) + log p(word | right) - log p(word)."""

    word: str
    score: float


class Substitutes(BaseModel):
    """The most likely words, best first; the word at the position itself is ignored."""

    tokens: list[str]
    position: int
    substitutes: list[Substitute]


class SearchBody(Body):
    """POST /search."""

    query: NonEmpty
    k: Results = 10
    hybrid: bool = Field(False, description="Also rank by the words of the query (BM25).")
    where: Annotated[dict[str, Any], AfterValidator(_check_where)] = Field(
        {},
        description='Conditions on metadata: {"year": 1958}, {"lang": ["en", "de"]} (any of '
        'these), {"year": {">=": 1950, "<": 1960}}.',
    )
    documents: bool = Field(False, description="Return only the best passage of each document.")


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


class SearchHits(BaseModel):
    """Passages, best first."""

    query: str
    hits: list[SearchHit]


class WordMapBody(Body):
    """POST /word_map."""

    word: NonEmpty
    sentences: Sentences
    layer: int | None = Field(None, description="Layer number from 0; default: mean of all layers.")


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
