"""Vectors over HTTP: `relmo serve`, and the same as an ASGI app for a server of one's own.

    create_app(elmo)        FastAPI app                                  app.py
    a request's way         watch.py (log, count) -> door.py (who, how large)
                            -> openai_routes.py, token_routes.py, ... -> service.py (limits, words)
                            -> batcher.py (one thread, sentences of many requests together)

FastAPI and what else `relmo[serve]` brings is imported by these modules and by none outside.
"""
