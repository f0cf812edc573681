"""Every route: OpenAI's API, relmo's own, the server's state, and the page."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from fastapi.staticfiles import StaticFiles

from relmo.errors import ConfigError
from relmo.layers import (
    BOTTOM_LABEL,
    MEAN_LABEL,
    LayerChoice,
    check_layers,
    choose_layers,
    layer_labels,
)
from relmo.search import Explanation, Hit
from relmo.senses.change import MEASURES, WordChange
from relmo.senses.picture import principal_axes
from relmo.senses.senses import WordSenses
from relmo.serve import schemas, task_schemas
from relmo.serve.access import RESERVATION
from relmo.serve.errors import ApiError, invalid
from relmo.serve.limits import BYTES_PER_CHARACTER, BYTES_PER_VALUE
from relmo.serve.monitoring import Metrics
from relmo.serve.schemas import JSON, json_response
from relmo.serve.service import Service, TokenizedSentence
from relmo.serve.task_models import TaskModel
from relmo.serve.word_map import map_words
from relmo.tasks.results import to_json
from relmo.text.places import Place
from relmo.types import Vectors

NPY = "application/x-npy"
BINARY = (NPY, "application/octet-stream")
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
STATIC = Path(__file__).with_name("static")
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page may load its own files and nothing else."""
MAX_OCCURRENCES = 500
NPY_ANSWER: dict[str, Any] = {
    "content": {NPY: {"schema": {"type": "string", "format": "binary"}}},
    "description": f"JSON, or with `Accept: {NPY}` one array (layers, all tokens, width) and the "
    "number of tokens of each sentence in the header X-Relmo-Tokens.",
}
ERROR: dict[str, Any] = {"model": schemas.ErrorBody}
OPENAI_STATUSES: list[int | str] = [400, 401, 404, 408, 413, 429, 503]
OPENAI_ERRORS = dict.fromkeys(OPENAI_STATUSES, ERROR)
ERRORS = {**OPENAI_ERRORS, 422: ERROR}
"""Error responses as OpenAPI lists them."""


def openai_routes(service: Service) -> APIRouter:
    """The routes OpenAI's clients use."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"])
    model_info = {"id": service.name, "object": "model", "created": 0, "owned_by": "relmo"}

    @router.post("/embeddings", response_model=schemas.EmbeddingList, responses=OPENAI_ERRORS)
    async def embeddings(body: schemas.EmbeddingsBody, request: Request) -> Response:
        """Return a unit-length vector for each text: Elmo.encode, normalized."""
        check_model(body.model)
        if body.dimensions not in (None, service.width):
            text = f"vectors of {service.name} have {service.width} numbers and cannot be "
            text += "shortened; omit dimensions"
            raise invalid(text, "unsupported_dimensions", "dimensions")
        texts = [body.input] if isinstance(body.input, str) else body.input
        request.scope[RESERVATION].add(len(texts) * service.width * BYTES_PER_VALUE)
        vectors, num_words = await service.encode(texts)
        request.scope["relmo"].update(texts=len(texts), tokens=num_words)
        rows: Iterable[Any] = np.ascontiguousarray(vectors)  # (N, D)
        if body.encoding_format == "base64":
            rows = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(rows)]
        usage = {"prompt_tokens": num_words, "total_tokens": num_words}
        answer = {"object": "list", "data": data, "model": service.name, "usage": usage}
        return await asyncio.to_thread(json_response, answer)

    @router.get("/models", response_model=schemas.ModelList, responses={401: ERROR})
    async def models() -> Response:
        """List the served model."""
        return json_response({"object": "list", "data": [model_info]})

    @router.get("/models/{name}", response_model=schemas.ModelInfo, responses=OPENAI_ERRORS)
    async def model(name: str) -> Response:
        """Describe the served model."""
        check_model(name)
        return json_response(model_info)

    def check_model(name: str | None) -> None:
        if name not in (None, service.name):  # never answer with another model's vectors
            text = f"this model is not served; the server has '{service.name}'"
            raise ApiError(404, text, code="model_not_found", param="model")

    return router


def relmo_routes(service: Service) -> APIRouter:
    """Vectors of tokens, substitutes, surprisal, senses and search."""
    router = APIRouter(tags=["relmo"], responses=ERRORS)

    @router.post("/embed_tokens", response_model=schemas.TokenVectors, responses={200: NPY_ANSWER})
    async def embed_tokens(body: schemas.TokensBody, request: Request) -> Response:
        """Return the chosen layers of every token of every sentence."""
        labels = check_requested(body.layers, service.num_layers)
        sentences = await service.tokenize(body.sentences)
        num_words = _log_size(request, sentences)
        num_values = num_words * len(labels) * service.width
        service.check_limit("values", num_values, "sentences")
        request.scope[RESERVATION].add(num_values * BYTES_PER_VALUE)
        vectors = await service.embed(sentences, lambda found: select(found, body.layers))
        if wants_binary(request.headers.get("accept", "")):
            return await asyncio.to_thread(_npy, vectors)
        answer = {
            "model": service.name,
            "width": service.width,
            "layers": [{MEAN_LABEL: "mean", BOTTOM_LABEL: "bottom"}.get(i, i) for i in labels],
            "sentences": [
                {"tokens": _placed(s), "vectors": v}
                for s, v in zip(sentences, vectors, strict=True)
            ],
            "usage": {"prompt_tokens": num_words, "total_tokens": num_words},
            **service.note_on(sentences),
        }
        return await asyncio.to_thread(json_response, answer)

    @router.post("/substitutes", response_model=schemas.Substitutes)
    async def substitutes(body: schemas.SubstitutesBody, request: Request) -> Response:
        """Return the words that both language models expect at a position of a sentence."""
        (sentence,) = await service.tokenize([body.sentence], "sentence")
        found = await service.substitutes(sentence.words, body)
        _log_size(request, [sentence])
        scored = [{"word": word, "score": score} for word, score in found]
        return json_response(
            {"tokens": sentence.words, "position": body.position, "substitutes": scored}
        )

    @router.post("/surprisal", response_model=schemas.Surprisal)
    async def surprisal(body: schemas.SurprisalBody, request: Request) -> Response:
        """Return how unexpected each word of a sentence is, in bits."""
        (sentence,) = await service.tokenize([body.sentence], "sentence")
        _log_size(request, [sentence])
        fields = schemas.WordBits.model_fields
        words = [{name: getattr(row, name) for name in fields}
                 for row in await service.surprisal(sentence.words)]  # fmt: skip
        return json_response({"words": words, **service.note_on([sentence])})

    @router.post("/senses", response_model=schemas.Senses)
    async def senses(body: schemas.SensesBody, request: Request) -> Response:
        """Return the senses of a word in a text: their shares, substitutes, examples and places."""
        note = await read_texts(request, body.word, {"text": body.text})
        found = await service.senses(body)
        notes = [each for each in (found.remark, note.get("note")) if each]
        answer = {
            "word": found.word,
            "places": len(found.places),
            "senses": [
                {**sense._asdict(), "examples": [_excerpt(place) for place in sense.examples]}
                for sense in found.senses
            ],
            "points": await asyncio.to_thread(_points, found),
            **({"note": "; ".join(notes)} if notes else {}),
        }
        return json_response(answer)

    @router.post("/change", response_model=schemas.Change)
    async def change(body: schemas.ChangeBody, request: Request) -> Response:
        """Return how the use of a word differs between two texts, with permutation tests."""
        texts = {"before": body.before, "after": body.after}
        note = await read_texts(request, body.word, texts)
        changes = await service.change(body)
        (found,) = changes.changes
        points = await asyncio.to_thread(_points, found)
        notes = [each for each in (found.remark, note.get("note")) if each]
        answer = {
            **{name: getattr(found, name) for name in ("word", "before", "after", "senses")},
            "passages_before": found.passages[0],
            "passages_after": found.passages[1],
            "permutations": changes.permutations,
            "seed": changes.seed,
            **{name: getattr(found, name)._asdict() for name in MEASURES},
            "points": [
                {**point, "text": "before" if number < found.before else "after"}
                for number, point in enumerate(points)
            ],
            **({"note": "; ".join(notes)} if notes else {}),
        }
        return json_response(answer)

    async def read_texts(request: Request, word: str, texts: Mapping[str, str]) -> dict[str, str]:
        """Check texts, log and reserve what they take; a note on their script."""
        sentences = await service.split_texts(word, texts)
        num_words = _log_size(request, sentences)
        request.scope[RESERVATION].add(num_words * service.width * BYTES_PER_VALUE)
        return service.note_on(sentences)

    @router.post("/search", response_model=schemas.SearchHits)
    async def search(body: schemas.SearchBody, request: Request) -> Response:
        """Return the passages of the served index that are nearest in meaning."""
        hits = await service.search(body)
        request.scope["relmo"].update(hits=len(hits))
        request.scope[RESERVATION].add(sum(map(_characters, hits)) * BYTES_PER_CHARACTER)
        reasons = await service.explain(body.query, hits) if body.explain else None
        return await asyncio.to_thread(_hits, body.query, hits, reasons)

    return router


def task_routes(models: Sequence[TaskModel]) -> APIRouter:
    """The served task models: a list of them, and a route for each, typed by its task."""
    router = APIRouter(tags=["tasks"])
    listed = {"tasks": [model.description() for model in models]}
    known = ", ".join(f"'{model.name}'" for model in models)

    @router.get("/tasks", response_model=task_schemas.TaskList, responses={401: ERROR})
    async def tasks() -> Response:
        """List the served task models: the texts each reads, and the labels it gives."""
        return json_response(listed)

    for model in models:
        _add_task_route(router, model)

    @router.post("/predict/{name}", include_in_schema=False)
    async def unknown(name: str) -> Response:
        text = f"this task model is not served; the server has {known}"
        if not known:
            text = "no task model is served; start the server with --task NAME"
        raise ApiError(404, text, code="task_not_found")

    return router


def _add_task_route(router: APIRouter, model: TaskModel) -> None:
    """The route of one task model."""

    async def predict(body: Any, request: Request) -> Response:  # noqa: ANN401 - see below
        reservation, log = request.scope[RESERVATION], request.scope["relmo"]
        examples = await model.read(body.inputs)
        log.update(texts=len(body.inputs), tokens=examples.num_words)
        reservation.add(model.memory(examples))
        return await asyncio.to_thread(_predictions, model, await model.answer(examples))

    # what the route takes is known only now, which no annotation in the source can say
    predict.__annotations__["body"] = task_schemas.body_of(model.text_names)
    router.add_api_route(
        f"/predict/{model.name}",
        predict,
        methods=["POST"],
        name=model.name,
        summary=f"Predict {model.result_name}: {model.name}",
        description=f"Return the {model.result_name} of each input: the task {model.task}.",
        response_model=task_schemas.response_of(model.result_type),
        responses={
            **ERRORS,
            200: task_schemas.example_of(model.result_type, model.name, model.task),
        },
    )


def check_requested(layers: LayerChoice | list[int], num_layers: int) -> list[int]:
    """The labels of the requested layers; raises ApiError if the model lacks one."""
    numbers = layers if isinstance(layers, list) else [layers]
    for number in numbers:
        try:
            check_layers(number, num_layers)
        except ConfigError as error:
            text = f"unknown layer {number}; choose a number from 0 to {num_layers - 1}"
            raise invalid(text, "no_such_layer", "layers") from error
    if len(set(numbers)) < len(numbers):
        raise invalid("a layer is listed twice", "no_such_layer", "layers")
    return layers if isinstance(layers, list) else layer_labels(layers, num_layers)


def select(found: Vectors, layers: LayerChoice | list[int]) -> Vectors:
    """(L + 1, T, D) -> (number of requested layers, T, D)."""
    chosen = found[layers] if isinstance(layers, list) else choose_layers(found, layers)
    return np.ascontiguousarray(chosen if chosen.ndim == 3 else chosen[None], dtype=np.float32)


def wants_binary(accept: str) -> bool:
    """Whether an Accept header names .npy before JSON."""
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    known = [kind for kind in kinds if kind in (*BINARY, JSON)]
    return bool(known) and known[0] in BINARY


def page_routes(app: FastAPI, service: Service) -> APIRouter:
    """The page, its files and its map of a word; the files are mounted on the app."""
    router = APIRouter(tags=["page"])
    app.mount("/static", StaticFiles(directory=STATIC), "static")

    @router.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        headers = {"content-security-policy": CONTENT_POLICY, "referrer-policy": "no-referrer"}
        return FileResponse(STATIC / "index.html", headers=headers, media_type="text/html")

    @router.post("/word_map", response_model=schemas.WordMapAnswer, responses=ERRORS)
    async def word_map(body: schemas.WordMapBody, request: Request) -> Response:
        """Place every occurrence of a word on a plane (PCA) and cluster similar ones."""
        layers: LayerChoice = "mean" if body.layer is None else body.layer
        check_requested(layers, service.num_layers)
        if body.senses and body.layer is not None:
            raise invalid("give layer or senses, not both", "no_such_layer", "senses")
        sentences = await service.tokenize(body.sentences)
        word = body.word.strip().casefold()
        places = [
            (s, t) for s, sentence in enumerate(sentences)
            for t, each in enumerate(sentence.words) if each.casefold() == word
        ]  # fmt: skip
        if not places:
            text = "no sentence contains this word; spell it as in the sentences"
            raise invalid(text, "word_not_found", "word")
        if len(places) > MAX_OCCURRENCES:
            text = f"expected at most {MAX_OCCURRENCES} occurrences, got {len(places):,}"
            raise invalid(text, "too_many_occurrences", "sentences")
        _log_size(request, sentences)
        numbers = sorted({s for s, _ in places})  # the others need not be read
        wanted = [sentences[s] for s in numbers]
        num_words = sum(len(sentence.words) for sentence in wanted)
        width = service.width * (service.num_layers if body.senses else 1)  # or a little less
        request.scope[RESERVATION].add(num_words * width * BYTES_PER_VALUE)
        if body.senses:
            read = await service.sense_vectors(wanted)
        else:
            read = await service.embed(wanted, lambda found: choose_layers(found, layers))
        vectors = dict(zip(numbers, read, strict=True))
        occurrences = np.stack([vectors[s][t] for s, t in places])  # (N, D)
        found = await asyncio.to_thread(map_words, occurrences)
        points: list[dict[str, Any]] = [
            {"sentence": s, "position": t, "text": sentences[s].words[t],
             "x": float(x), "y": float(y), "cluster": int(cluster)}
            for (s, t), (x, y), cluster in zip(places, found.points, found.clusters, strict=True)
        ]  # fmt: skip
        shares = found.shares.tolist()
        return json_response({"points": points, "shares": shares, **service.note_on(wanted)})

    return router


def server_routes(app: FastAPI, service: Service, metrics: Metrics) -> APIRouter:
    """Health checks, metrics, and the API's description without outside requests."""
    router = APIRouter(tags=["server"])

    @router.get("/health", response_model=schemas.Health)
    async def health() -> Response:
        """Report that the process is running. Needs no key."""
        return json_response({"status": "ok"})

    @router.get("/ready", response_model=schemas.Ready, responses={503: ERROR})
    async def ready() -> Response:
        """Report whether the server accepts requests, and its model. Needs no key."""
        if not service.batcher.is_open:
            raise ApiError(503, "the server accepts no requests", code="not_ready")
        return json_response(
            {
                "status": "ready",
                "model": service.name,
                "num_layers": service.num_layers,
                "width": service.width,
                "has_substitutes": service.elmo.has_lm,
                "has_index": service.index is not None,
            }
        )

    described: dict[int | str, Any] = {200: {"content": {"text/plain": {}}}, 401: ERROR}

    @router.get("/metrics", name="metrics", response_class=Response, responses=described)
    async def read_metrics() -> Response:
        """Return the metrics in Prometheus's text format."""
        return Response(metrics.text(), 200, None, PROMETHEUS)

    @router.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()))

    return router


def docs_page(schema: dict[str, Any]) -> str:
    """The OpenAPI description as a plain page: every route, its body and its responses."""
    routes = [_describe_route(path, method, about) for path, methods in schema["paths"].items()
              for method, about in methods.items()]  # fmt: skip
    shapes = json.dumps(schema.get("components", {}).get("schemas", {}), indent=2)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'><title>relmo API</title>"
        "<link rel=stylesheet href=/static/style.css><main>"
        "<h1>API</h1><p>Machine-readable: <a href=/openapi.json>openapi.json</a>. "
        f"Interactive: <a href=/>words in context</a>.</p>{''.join(routes)}"
        f"<details><summary>JSON schemas</summary><pre>{escape(shapes)}</pre></details></main>"
    )


def _describe_route(path: str, method: str, about: dict[str, Any]) -> str:
    body = about.get("requestBody", {}).get("content", {}).get(JSON, {})
    name = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
    accepts = f" Body: <code>{escape(name)}</code> as JSON." if name else ""
    statuses = ", ".join(map(escape, sorted(about["responses"])))
    return (
        f"<section><h2><code>{method.upper()} {escape(path)}</code></h2><p>"
        f"{escape(about.get('description', ''))}{accepts}</p><p>Status: {statuses}.</p></section>"
    )


def _log_size(request: Request, sentences: Sequence[TokenizedSentence]) -> int:
    """Add the size of a request to its log line; the number of words."""
    num_words = sum(len(sentence.words) for sentence in sentences)
    request.scope["relmo"].update(texts=len(sentences), tokens=num_words)
    return num_words


def _characters(hit: Hit) -> int:
    """Characters of a hit, about."""
    meta = sum(len(key) + len(str(value)) for key, value in hit.meta.items())
    return len(hit.document) + len(hit.source) + len(hit.text) + meta


def _excerpt(place: Place) -> dict[str, str]:
    return dict(zip(("left", "word", "right"), place.parts(), strict=True))


def _points(found: WordSenses | WordChange) -> list[dict[str, Any]]:
    """Each place on the two main axes, and its sense, from 1."""
    points = principal_axes(found.vectors).tolist()
    rows = zip(found.places, points, (1 + found.labels).tolist(), strict=True)
    return [{**_excerpt(place), "x": x, "y": y, "sense": sense} for place, (x, y), sense in rows]


def _predictions(model: TaskModel, results: Sequence[Any]) -> Response:
    found = [to_json(result) for result in results]
    return json_response({"model": model.name, "task": model.task, "results": found})


def _hits(query: str, hits: Sequence[Hit], reasons: Sequence[Explanation] | None) -> Response:
    found = [hit.to_dict() for hit in hits]
    for values, why in zip(found, reasons or (), strict=reasons is not None):
        values["explanation"] = why.to_dict()
    # orjson refuses integers beyond 64 bits, which metadata may contain
    body = json.dumps({"query": query, "hits": found}, default=float)
    return Response(body, 200, None, JSON)


def _npy(vectors: Sequence[Vectors]) -> Response:
    """One array for all sentences, (layers, all tokens, D), and their lengths in a header."""
    buffer = io.BytesIO()
    np.save(buffer, np.concatenate(vectors, axis=1), allow_pickle=False)
    counts = ",".join(str(found.shape[1]) for found in vectors)
    return Response(buffer.getvalue(), 200, {"x-relmo-tokens": counts}, NPY)


def _placed(sentence: TokenizedSentence) -> list[dict[str, str | int | None]]:
    if sentence.tokens is None:
        return [{"text": word, "start": None, "end": None} for word in sentence.words]
    return [{"text": t.text, "start": t.start, "end": t.end} for t in sentence.tokens]
