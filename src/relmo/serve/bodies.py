"""Requests and answers, as FastAPI checks and documents them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from relmo.search.filters import conditions

OPENAI_TEXT = (
    "send text, a string or a list of strings; lists of token ids belong to one tokenizer of "
    "OpenAI's (in LangChain: check_embedding_ctx_length=False)"
)
HALF_PAIR = "it holds half of a surrogate pair, which is no character; send valid Unicode"


class Body(BaseModel):
    """A request; a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _check_input(value: Any) -> Any:  # noqa: ANN401 - whatever came
    """Say in one sentence what a union of types would say in four."""
    if value == "" or value == []:
        raise ValueError("it is empty; send text")
    is_texts = isinstance(value, list) and all(isinstance(text, str) for text in value)
    if not isinstance(value, str) and not is_texts:
        raise ValueError(OPENAI_TEXT)
    if isinstance(value, list) and "" in value:
        raise ValueError(f"text {value.index('')} is empty; leave it out")
    return value


def check_whole(value: Any) -> Any:  # noqa: ANN401 - a string or strings
    """Refuse lone surrogates, which JSON's escapes can write and no answer could hold."""
    texts = value if isinstance(value, list) else [value]
    try:
        for text in texts:
            str(text).encode()
    except UnicodeEncodeError:
        raise ValueError(HALF_PAIR) from None
    return value


def _check_where(value: dict[str, Any]) -> dict[str, Any]:
    """Conditions that cannot be are refused by what they say of themselves."""
    conditions(value)
    return value


def _check_sentence(value: Any) -> Any:  # noqa: ANN401 - whatever came
    is_words = isinstance(value, list) and all(isinstance(word, str) for word in value)
    if not isinstance(value, str) and not is_words:
        raise ValueError("a sentence is a string or a list of strings, its tokens")
    return value


def _check_layers(value: Any) -> Any:  # noqa: ANN401 - whatever came
    numbers = value if isinstance(value, list) else [value]
    is_numbers = numbers and all(type(number) is int for number in numbers)
    if value not in ("all", "mean", "top") and not is_numbers:
        raise ValueError("choose 'all', 'mean', 'top', a layer's number or a list of numbers")
    return value


Texts = Annotated[str | list[str], BeforeValidator(_check_input), AfterValidator(check_whole)]
Sentence = Annotated[str | list[str], BeforeValidator(_check_sentence), AfterValidator(check_whole)]
ChosenLayers = Annotated[
    Literal["all", "mean", "top"] | int | list[int], BeforeValidator(_check_layers)
]


class EmbeddingsBody(Body):
    """POST /v1/embeddings."""

    input: Texts = Field(description="One text or many; a text may have several sentences.")
    model: str | None = Field(None, description="The served model's name.")
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="base64: little-endian float32."
    )
    dimensions: int | None = Field(None, description="The model's own width or nothing.")
    user: str | None = Field(None, description="Taken for compatibility; not used, not logged.")


class Usage(BaseModel):
    """Words that were read."""

    prompt_tokens: int
    total_tokens: int


class Embedding(BaseModel):
    """One text's vector, of length one."""

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
    """The served models: one."""

    object: Literal["list"]
    data: list[ModelInfo]


class TokensBody(Body):
    """POST /embed_tokens."""

    sentences: Annotated[list[Sentence], Field(min_length=1)] = Field(
        description="Strings, which the model's tokenizer splits, or token lists."
    )
    layers: ChosenLayers = Field("all", description="Counted from 0, the token layer.")


class PlacedToken(BaseModel):
    """A word; its characters in the text, where a text was sent."""

    text: str
    start: int | None
    end: int | None


class SentenceVectors(BaseModel):
    """A sentence's words and their vectors: (layers, tokens, width)."""

    tokens: list[PlacedToken]
    vectors: list[list[list[float]]]


class TokenVectors(BaseModel):
    """Vectors of every word of every sentence."""

    model: str
    width: int
    layers: list[int | Literal["mean"]]
    sentences: list[SentenceVectors]
    usage: Usage


class SubstitutesBody(Body):
    """POST /substitutes."""

    sentence: Sentence
    position: int = Field(ge=0, le=10**6, description="Of the word, counted from 0.")
    k: int = Field(10, ge=1, le=10**6)


class Substitute(BaseModel):
    """A word that fits, and how well: log p(word | left) + log p(word | right) - log p(word)."""

    word: str
    score: float


class Substitutes(BaseModel):
    """The words that fit best, best first; the word that stands there is not looked at."""

    tokens: list[str]
    position: int
    substitutes: list[Substitute]


class SearchBody(Body):
    """POST /search."""

    query: Annotated[str, AfterValidator(check_whole)] = Field(min_length=1)
    k: int = Field(10, ge=1, le=10**6)
    hybrid: bool = Field(False, description="Rank by the words of the query too (BM25).")
    where: Annotated[dict[str, Any], AfterValidator(_check_where)] = Field(
        {},
        description='Conditions on metadata: {"year": 1958}, {"lang": ["en", "de"]} (one of '
        'these), {"year": {">=": 1950, "<": 1960}}.',
    )
    documents: bool = Field(False, description="The best passage of each document alone.")


class SearchHit(BaseModel):
    """A passage; an index may tell more of it."""

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


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"]


class Ready(BaseModel):
    """Requests are taken, and by what."""

    status: Literal["ready"]
    model: str
    num_layers: int
    width: int
    has_substitutes: bool
    has_index: bool
