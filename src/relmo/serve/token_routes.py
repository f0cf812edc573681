"""relmo's own routes: vectors of tokens, substitutes, search."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response

from relmo.serve.bodies import (
    SearchBody,
    SearchHits,
    Substitutes,
    SubstitutesBody,
    TokensBody,
    TokenVectors,
)
from relmo.serve.openai_routes import json_response
from relmo.serve.problems import ErrorBody, Refusal
from relmo.serve.service import Given, Service
from relmo.types import Vectors

NPY = "application/x-npy"
BINARY = (NPY, "application/octet-stream")
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 401, 404, 408, 413, 422, 429, 503)
}
NPY_ANSWER: dict[str, Any] = {
    "content": {NPY: {"schema": {"type": "string", "format": "binary"}}},
    "description": f"JSON, or one array (layers, all tokens, width) for `Accept: {NPY}`; the "
    "header X-Relmo-Tokens then gives the number of tokens of each sentence.",
}
Chosen = list[int] | Literal["mean"]


def token_routes(service: Service) -> APIRouter:
    """The routes of one service."""
    router = APIRouter(tags=["relmo"], responses=ERRORS)

    @router.post("/embed_tokens", response_model=TokenVectors, responses={200: NPY_ANSWER})
    async def embed_tokens(body: TokensBody, request: Request) -> Response:
        """Give chosen layers of every token of every sentence."""
        chosen = choose(body.layers, service.num_layers)
        given = await service.given(body.sentences)
        words = sum(len(each.words) for each in given)
        service.check_values(words, 1 if chosen == "mean" else len(chosen))
        layers = await service.layers(given, lambda found: pick(found, chosen))
        request.scope["relmo"].update(texts=len(given), tokens=words)
        if wants_binary(request.headers.get("accept", "")):
            return await asyncio.to_thread(_npy, layers)
        names: list[int] | list[str] = ["mean"] if chosen == "mean" else chosen
        answer = {
            "model": service.name,
            "width": service.elmo.config.width,
            "layers": names,
            "sentences": [
                {"tokens": _placed(g), "vectors": v} for g, v in zip(given, layers, strict=True)
            ],
            "usage": {"prompt_tokens": words, "total_tokens": words},
        }
        return await asyncio.to_thread(json_response, answer)

    @router.post("/substitutes", response_model=Substitutes)
    async def substitutes(body: SubstitutesBody, request: Request) -> Response:
        """Give the words that the two language models expect at a place of a sentence."""
        (given,) = await service.given([body.sentence])
        found = await service.substitutes(given, body.position, body.k)
        request.scope["relmo"].update(texts=1, tokens=len(given.words))
        scored = [{"word": word, "score": score} for word, score in found]
        return json_response(
            {"tokens": given.words, "position": body.position, "substitutes": scored}
        )

    @router.post("/search", response_model=SearchHits)
    async def search(body: SearchBody, request: Request) -> Response:
        """Give the passages of the served index that are nearest in meaning."""
        hits = await service.search(body)
        request.scope["relmo"].update(hits=len(hits))
        found = {"query": body.query, "hits": list(hits)}
        text = json.dumps(found, default=float)  # metadata may hold whole numbers of any size
        return Response(text, 200, None, "application/json")

    return router


def choose(layers: str | int | Sequence[int], num_layers: int) -> Chosen:
    """The numbers of the layers that were asked for, or their mean."""
    if layers == "mean":
        return "mean"
    if layers == "all":
        return list(range(num_layers))
    if layers == "top":
        return [num_layers - 1]
    assert not isinstance(layers, str)
    numbers = [layers] if isinstance(layers, int) else list(layers)
    for number in numbers:
        if not 0 <= number < num_layers:
            text = f"layer {number} is not there; choose 0 to {num_layers - 1}"
            raise Refusal(422, text, code="no_such_layer", param="layers")
    if len(set(numbers)) < len(numbers):
        raise Refusal(422, "a layer is asked for twice", code="no_such_layer", param="layers")
    return numbers


def pick(found: Vectors, chosen: Chosen) -> Vectors:
    """(L + 1, T, D) -> (chosen layers, T, D)."""
    picked = found.mean(0, keepdims=True) if chosen == "mean" else found[chosen]
    return np.ascontiguousarray(picked, dtype=np.float32)


def wants_binary(accept: str) -> bool:
    """Whether .npy is asked for before JSON."""
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    asked = [kind for kind in kinds if kind in (*BINARY, "application/json")]
    return bool(asked) and asked[0] in BINARY


def _npy(layers: Sequence[Vectors]) -> Response:
    buffer = io.BytesIO()
    np.save(buffer, np.concatenate(layers, axis=1), allow_pickle=False)
    counts = ",".join(str(found.shape[1]) for found in layers)
    return Response(buffer.getvalue(), 200, {"x-relmo-tokens": counts}, NPY)


def _placed(given: Given) -> list[dict[str, str | int | None]]:
    if given.tokens is None:
        return [{"text": word, "start": None, "end": None} for word in given.words]
    return [{"text": t.text, "start": t.start, "end": t.end} for t in given.tokens]
