"""The server as an ASGI app: `create_app(elmo)`.

create_app(Elmo.from_pretrained("relmo-en-small"))   # for uvicorn, hypercorn or a test
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from relmo import __version__
from relmo.elmo import Elmo
from relmo.errors import TextError
from relmo.serve import problems
from relmo.serve.about_routes import about_routes
from relmo.serve.batcher import QueueClosed, QueueFull
from relmo.serve.door import Door
from relmo.serve.meters import Meters
from relmo.serve.openai_routes import openai_routes
from relmo.serve.page_routes import page_routes
from relmo.serve.service import Service, refusal_of, warm_up
from relmo.serve.settings import Access, Limits
from relmo.serve.shelf import Index
from relmo.serve.token_routes import token_routes
from relmo.serve.watch import Watch


def create_app(
    elmo: Elmo,
    *,
    index: Index | None = None,
    limits: Limits | None = None,
    access: Access | None = None,
) -> FastAPI:
    """A server for one model; its thread starts now and ends with the app's lifespan.

    Args:
        elmo: the model; nothing else may use it meanwhile.
        index: what /search looks in; without it the route answers 404.
        limits: on requests and on what waits.
        access: key and host names; anyone under any name unless given.
    """
    limits, access, meters = limits or Limits(), access or Access(), Meters()
    warm_up(elmo)
    service = Service(elmo, limits, meters, index)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="relmo",
        summary="Context-aware word vectors over HTTP.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    for router in (
        openai_routes(service),
        token_routes(service),
        about_routes(app, service, meters),
        page_routes(app, service),
    ):
        app.include_router(router)
    _answer_errors(app)
    app.add_middleware(Door, access=access, limits=limits)
    app.add_middleware(Watch, meters=meters)  # the last added is the outermost
    return app


def _answer_errors(app: FastAPI) -> None:
    """Every error in one shape."""

    async def answer(request: Request, error: Exception) -> Response:
        return await problems.answer_refusal(request, refusal_of(error))

    app.add_exception_handler(problems.Refusal, problems.answer_refusal)
    app.add_exception_handler(RequestValidationError, problems.answer_invalid)
    app.add_exception_handler(HTTPException, problems.answer_http)
    for kind in (QueueFull, QueueClosed, TextError):
        app.add_exception_handler(kind, answer)
