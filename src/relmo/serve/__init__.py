"""The HTTP server: `relmo serve`, and `create_app` for any ASGI server. Start at app.py."""
