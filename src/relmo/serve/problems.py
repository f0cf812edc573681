"""What a refused request is told: one shape everywhere, that of OpenAI's API.

{"error": {"message": "…", "type": "invalid_request_error", "param": "input", "code": "…"}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from relmo.errors import RelmoError

KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The body of every answer that is not 2xx."""

    error: ErrorDetail


class Refusal(RelmoError):
    """A request that is answered with an error status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """The refusal as it goes out."""
        return error_response(self.status, str(self), self.code, self.param, self.headers)


def error_response(
    status: int,
    message: str,
    code: str | None = None,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An error in OpenAI's shape."""
    kind = KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    detail = {"message": message, "type": kind, "param": param, "code": code}
    body = orjson.dumps({"error": detail})
    return Response(body, status, dict(headers or {}), "application/json")


async def answer_refusal(request: Request, error: Exception) -> Response:
    """Our own refusals."""
    assert isinstance(error, Refusal)
    return _for_openai(request, error).response()


async def answer_invalid(request: Request, error: Exception) -> Response:
    """A body that does not fit its schema: where, and what was wanted; never what came."""
    assert isinstance(error, RequestValidationError)
    first, more = error.errors()[0], len(error.errors()) - 1
    param = _place(first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "model_attributes_type":
        message = "send a JSON object, with the header Content-Type: application/json"
    message = f"{param}: {message}" if param else message
    if more and "union" not in str(first["type"]):
        message += f" (and {more} more)"
    refusal = Refusal(422, _printable(message), code=str(first["type"]), param=_printable(param))
    return _for_openai(request, refusal).response()


async def answer_http(request: Request, error: Exception) -> Response:
    """No such path, no such method, JSON that cannot be read."""
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, str(error.detail), headers=error.headers)


def _for_openai(request: Request, refusal: Refusal) -> Refusal:
    """OpenAI's API says 400 where ours says 422: its clients raise BadRequestError for it."""
    if refusal.status == 422 and request.url.path.startswith("/v1/"):
        refusal.status = 400
    return refusal


def _place(place: Sequence[Any]) -> str:
    """('body', 'input', 'list[str]', 3) -> 'input.3'."""
    names = [str(part) for part in place if part != "body"]
    kept = [n for n in names if not n.startswith(("list[", "literal[", "function-")) and n != "str"]
    return ".".join(kept)[:200]


def _printable(text: str) -> str:
    """Lone surrogates, which a field's name may hold, do not fit into UTF-8."""
    return text.encode("utf-8", "replace").decode()
