"""Logs: one JSON object per line on standard error, and never a word of a user's text.

What goes in is chosen, not what is kept out: an error is logged by its type and the places in the
code that it came through, because its message may quote the text.
"""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

import orjson

LOGGER = logging.getLogger("relmo.serve")


class JsonLines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's time, level, event and fields."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": time, "level": record.levelname.lower()}
        fields = getattr(record, "fields", None)
        if fields is not None:
            line |= {"event": record.msg, **fields}
        else:  # uvicorn's own: about the server, its messages hold no bodies
            line |= {"event": "server", "message": record.getMessage()}
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = describe(record.exc_info[1])
        return orjson.dumps(line, default=str).decode()


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:  # noqa: ANN401 - JSON
    """Write one line."""
    LOGGER.log(level, event, extra={"fields": fields})


def describe(error: BaseException) -> dict[str, Any]:
    """An error without its message: type, and file:line of each step, the last one first."""
    steps = traceback.extract_tb(error.__traceback__)[::-1][:12]
    return {
        "type": type(error).__name__,
        "at": [f"{step.filename.rpartition('/')[2]}:{step.lineno}" for step in steps],
    }


def start_logs() -> None:
    """Send our lines and uvicorn's to standard error. For the command: a library sets up none."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("relmo.serve", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name != "uvicorn.error" else []
        logger.propagate = name == "uvicorn.error"
        logger.setLevel(logging.INFO)
