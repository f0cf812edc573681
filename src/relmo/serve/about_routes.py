"""How the server is: /health, /ready, /metrics, and /docs without a single outside request."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse, Response

from relmo.serve.bodies import Health, Ready
from relmo.serve.meters import Meters
from relmo.serve.openai_routes import json_response
from relmo.serve.problems import ErrorBody, Refusal
from relmo.serve.service import Service

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def about_routes(app: FastAPI, service: Service, meters: Meters) -> APIRouter:
    """The routes of one service."""
    router = APIRouter(tags=["server"])

    @router.get("/health", response_model=Health)
    async def health() -> Response:
        """Tell that the process answers. Needs no key."""
        return json_response({"status": "ok"})

    @router.get("/ready", response_model=Ready, responses={503: {"model": ErrorBody}})
    async def ready() -> Response:
        """Tell whether requests are taken, and by what model. Needs no key."""
        if not service.is_ready:
            raise Refusal(503, "the server takes no requests now", code="not_ready")
        return json_response(
            {
                "status": "ready",
                "model": service.name,
                "num_layers": service.num_layers,
                "width": service.elmo.config.width,
                "has_substitutes": service.elmo.has_lm,
                "has_index": service.index is not None,
            }
        )

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, 401: {"model": ErrorBody}},
    )
    async def metrics() -> Response:
        """Give the counters as Prometheus reads them."""
        return Response(meters.text(), 200, None, PROMETHEUS)

    @router.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()))

    return router


def docs_page(schema: dict[str, Any]) -> str:
    """The OpenAPI description as a plain page: every route, its body and its answers."""
    parts = [_operation(path, method, about) for path, methods in schema["paths"].items()
             for method, about in methods.items()]  # fmt: skip
    shapes = json.dumps(schema.get("components", {}).get("schemas", {}), indent=2)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'><title>relmo: routes</title>"
        "<link rel=stylesheet href=/static/style.css><main>"
        "<h1>Routes</h1><p>For machines: <a href=/openapi.json>openapi.json</a>. To look at words: "
        f"<a href=/>the page</a>.</p>{''.join(parts)}"
        f"<details><summary>Shapes of bodies</summary><pre>{escape(shapes)}</pre></details></main>"
    )


def _operation(path: str, method: str, about: dict[str, Any]) -> str:
    body = about.get("requestBody", {}).get("content", {}).get("application/json", {})
    needed = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
    takes = f"<p>Takes <code>{escape(needed)}</code> as JSON.</p>" if needed else ""
    answers = ", ".join(map(escape, about["responses"]))
    return (
        f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
        f"<p>{escape(about.get('description', ''))}</p>{takes}<p>Answers {answers}.</p></section>"
    )
