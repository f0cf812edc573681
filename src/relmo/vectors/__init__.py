"""Vector files: streamed, safe against a crash, resumable. Start at `writer.py`."""
