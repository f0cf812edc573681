"""The `relmo` command: its verbs, and what an error looks like from outside.

Exit codes: 0 done, 1 the work failed, 2 the call is wrong, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, TextIO

import typer
from rich.console import Console

from relmo import __version__
from relmo.cli.bench import bench
from relmo.cli.convert import convert
from relmo.cli.embed import embed
from relmo.cli.evaluate import evaluate
from relmo.cli.index import index
from relmo.cli.info import info
from relmo.cli.neighbors import neighbors
from relmo.cli.output import note
from relmo.cli.perplexity import perplexity
from relmo.cli.predict import predict
from relmo.cli.pretrain import pretrain
from relmo.cli.probe import probe
from relmo.cli.report import report
from relmo.cli.search import search
from relmo.cli.serve import serve
from relmo.cli.train import train
from relmo.errors import RelmoError, exit_code

app = typer.Typer(
    name="relmo",
    help="Context-aware word vectors from characters: ELMo, loaded, run and studied.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(embed)
app.command()(convert)
app.command()(info)
app.command()(pretrain)
app.command()(perplexity)
app.command()(train)
app.command()(evaluate)
app.command()(predict)
app.command(epilog="Example: relmo probe pos --data ud-ewt --model relmo-en-small")(probe)
app.command(epilog="Example: relmo neighbors play 'She saw a play.' --corpus news.txt")(neighbors)
app.command()(index)
app.command()(search)
app.command()(report)
app.command()(serve)
app.command(epilog="Example: relmo bench --text sentences.txt --precision float32")(bench)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"relmo {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before the verb."""


def main(args: list[str] | None = None) -> None:
    """Run the command line; every error that a user can mend is one line on standard error."""
    warnings.showwarning = _warn
    try:
        app(args)
    except RelmoError as error:
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"relmo: {error}")
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader went away
        sys.exit(1)
    except OSError as error:  # standard output is full or closed
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"relmo: {error}")
        sys.exit(1)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as a line: where in the code it arose says nothing to who typed a command."""
    note(str(message))


if __name__ == "__main__":
    main()
