"""Error responses: one JSON shape for every route, the one OpenAI's API uses.

{"error": {"message": "…", "type": "invalid_request_error", "param": "input", "code": "…"}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from relmo.errors import RelmoError, TextError
from relmo.serve.schemas import json_response

TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
"""Status -> error type; other statuses are server or invalid request errors."""

UNKNOWN_FIELD, STRANGE = "extra_forbidden", "an unknown field is not permitted"
MAX_MESSAGE = 500
"""Characters of a message about a body, which may quote it."""


class ApiError(RelmoError):
    """Answers a request with an error status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Build the response in OpenAI's shape."""
        fallback = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = TYPES.get(self.status, fallback)
        detail = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return json_response({"error": detail}, self.status, self.headers)


def invalid(message: str, code: str, param: str) -> ApiError:
    """Make the error for a field whose value cannot be used."""
    return ApiError(422, message, code=code, param=param)


def add_error_handlers(app: FastAPI) -> None:
    """Answer every exception that a request can cause in the same shape."""

    async def answer(request: Request, error: Exception) -> Response:
        found = _as_api_error(error)
        if found.status == 422 and request.url.path.startswith("/v1/"):
            found.status = 400  # OpenAI's clients raise BadRequestError for 400, not for 422
        return found.response()

    for kind in (ApiError, RequestValidationError, HTTPException, TextError):
        app.add_exception_handler(kind, answer)


def _as_api_error(error: Exception) -> ApiError:
    """Map an exception to its status and code; the user's text never goes into the message."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):  # unknown path, wrong method, malformed JSON
        return ApiError(error.status_code, str(error.detail), headers=error.headers)
    if isinstance(error, TextError):
        return ApiError(422, "not enough memory for this text; send shorter sentences", code="text")
    assert isinstance(error, RequestValidationError)
    # describe the first field that does not fit the schema, without quoting its value
    first, *others = error.errors()
    code, param = str(first["type"]), _field_path(first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")[:MAX_MESSAGE]
    if code == "model_attributes_type":
        message = "expected a JSON object with the header Content-Type: application/json"
    if code == UNKNOWN_FIELD:
        message = STRANGE
    message = f"{param}: {message}" if param else message
    strange = [_field_path(other["loc"]) for other in others if other["type"] == UNKNOWN_FIELD]
    if strange:
        message += f"; {strange[0]}: {STRANGE}"  # often the other, misspelled
    if (more := len(others) - bool(strange)) and "union" not in code:
        message += f" (and {more} more)"
    return ApiError(422, message.encode("utf-8", "replace").decode(), code=code, param=param)


def _field_path(place: Sequence[Any]) -> str:
    """('body', 'input', 'list[str]', 3) -> 'input.3'."""
    names = [str(part) for part in place if part not in ("body", "str")]
    kept = [n for n in names if not n.startswith(("list[", "literal[", "function-"))]
    # a field name may contain lone surrogates, which UTF-8 cannot encode
    return ".".join(kept)[:200].encode("utf-8", "replace").decode()
