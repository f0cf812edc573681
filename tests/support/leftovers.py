"""Names under which a process that was killed leaves what it was writing."""

from relmo.files import HOST

ENDED = 4_199_999
"""No process has this number: Linux gives none above 4,194,304."""


def leftover(name: str, end: str = "tmp", pid: int = ENDED, host: str = HOST) -> str:
    """The hidden name of a file or folder that was to replace `name`."""
    return f".{name}.{host}-{pid}-0123abcd.{end}"
