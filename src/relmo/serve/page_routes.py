"""The page at /, its files, and what it asks for beyond the other routes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import AfterValidator, BaseModel, Field

from relmo.serve.bodies import Body, Sentence, check_whole
from relmo.serve.openai_routes import json_response
from relmo.serve.problems import Refusal
from relmo.serve.service import Service
from relmo.serve.token_routes import ERRORS, choose, pick
from relmo.serve.word_map import map_words

STATIC = Path(__file__).with_name("static")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load: its own files and nothing from outside."""
MOST_OCCURRENCES = 500


class WordMapBody(Body):
    """POST /word_map."""

    word: Annotated[str, AfterValidator(check_whole)] = Field(min_length=1)
    sentences: Annotated[list[Sentence], Field(min_length=1)]
    layer: int | None = Field(None, description="Counted from 0; the mean of all unless given.")


class Point(BaseModel):
    """One occurrence."""

    sentence: int
    position: int
    text: str
    x: float
    y: float
    cluster: int


class WordMapAnswer(BaseModel):
    """Occurrences of a word, in the plane in which they differ most."""

    points: list[Point]
    shares: list[float]


def page_routes(app: FastAPI, service: Service) -> APIRouter:
    """The routes of one service; the page's files are added to the app."""
    router = APIRouter(tags=["page"])
    app.mount("/static", StaticFiles(directory=STATIC), "static")

    @router.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        headers = {"content-security-policy": POLICY, "referrer-policy": "no-referrer"}
        return FileResponse(STATIC / "index.html", headers=headers, media_type="text/html")

    @router.post("/word_map", response_model=WordMapAnswer, responses=ERRORS)
    async def word_map(body: WordMapBody, request: Request) -> Response:
        """Place every occurrence of a word in a plane (PCA) and group those that are alike."""
        chosen = choose("mean" if body.layer is None else body.layer, service.num_layers)
        given = await service.given(body.sentences)
        wanted = body.word.strip().casefold()
        places = [
            (s, t) for s, each in enumerate(given)
            for t, word in enumerate(each.words) if word.casefold() == wanted
        ]  # fmt: skip
        if not places:
            text = "no sentence holds that word; write it as it stands in the sentences"
            raise Refusal(422, text, code="word_not_found", param="word")
        if len(places) > MOST_OCCURRENCES:
            text = f"{len(places):,} occurrences; a map takes {MOST_OCCURRENCES}"
            raise Refusal(422, text, code="too_many_occurrences", param="sentences")
        layers = await service.layers(given, lambda found: pick(found, chosen)[0])
        request.scope["relmo"].update(texts=len(given), tokens=sum(len(g.words) for g in given))
        found = map_words(np.stack([layers[s][t] for s, t in places]))
        points: list[dict[str, Any]] = [
            {"sentence": s, "position": t, "text": given[s].words[t],
             "x": float(x), "y": float(y), "cluster": int(cluster)}
            for (s, t), (x, y), cluster in zip(places, found.points, found.clusters, strict=True)
        ]  # fmt: skip
        return json_response({"points": points, "shares": found.shares.tolist()})

    return router
