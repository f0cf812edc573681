"""The routes that OpenAI's clients know: POST /v1/embeddings and GET /v1/models."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from relmo.serve.bodies import EmbeddingList, EmbeddingsBody, ModelInfo, ModelList
from relmo.serve.problems import ErrorBody, Refusal
from relmo.serve.service import Service
from relmo.types import Vectors

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 401, 404, 408, 413, 429, 503)
}


def openai_routes(service: Service) -> APIRouter:
    """The routes of one service."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"])
    width = service.elmo.config.width

    @router.post("/embeddings", response_model=EmbeddingList, responses=ERRORS)
    async def embeddings(body: EmbeddingsBody, request: Request) -> Response:
        """Give one vector of length one per text: what `Elmo.encode` gives, normalised."""
        check_model(service, body.model)
        if body.dimensions not in (None, width):
            text = f"vectors of {service.name} have {width} numbers and cannot be shortened; "
            text += "leave dimensions out"
            raise Refusal(422, text, code="unsupported_dimensions", param="dimensions")
        texts = [body.input] if isinstance(body.input, str) else body.input
        vectors, words = await service.encode(texts)
        request.scope["relmo"].update(texts=len(texts), tokens=words)
        answer = {
            "object": "list",
            "data": [
                {"object": "embedding", "index": i, "embedding": _written(v, body.encoding_format)}
                for i, v in enumerate(vectors)
            ],
            "model": service.name,
            "usage": {"prompt_tokens": words, "total_tokens": words},
        }
        return json_response(answer)

    @router.get("/models", response_model=ModelList, responses={401: {"model": ErrorBody}})
    async def models() -> Response:
        """List the served model."""
        return json_response({"object": "list", "data": [model_info(service)]})

    @router.get("/models/{name}", response_model=ModelInfo, responses=ERRORS)
    async def model(name: str) -> Response:
        """Describe the served model."""
        check_model(service, name)
        return json_response(model_info(service))

    return router


def check_model(service: Service, name: str | None) -> None:
    """Raise Refusal for a model that is not served: other vectors than asked for help nobody."""
    if name is not None and name != service.name:
        text = f"that model is not served here; this server has '{service.name}'"
        raise Refusal(404, text, code="model_not_found", param="model")


def model_info(service: Service) -> dict[str, str | int]:
    """The served model as OpenAI describes one."""
    return {"id": service.name, "object": "model", "created": 0, "owned_by": "relmo"}


def json_response(value: object) -> Response:
    """JSON with the fewest digits that read back as the same float32."""
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), 200, None, JSON)


JSON = "application/json"


def _written(vector: Vectors, how: str) -> Vectors | str:
    if how == "base64":
        return base64.b64encode(vector.astype(np.dtype("<f4")).tobytes()).decode()
    return np.ascontiguousarray(vector)
