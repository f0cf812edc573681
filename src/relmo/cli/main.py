"""The `relmo` command: its subcommands, and how errors are reported.

Exit codes: 0 success, 1 the work failed, 2 wrong usage, 130 interrupted (143 by SIGTERM).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, TextIO

import typer
from rich.console import Console

from relmo import __version__
from relmo.cli.language import surprisal
from relmo.cli.models import convert, embed, info, models, perplexity, pretrain
from relmo.cli.search import index, search, serve
from relmo.cli.senses import change, senses
from relmo.cli.shared import Stopped, interruptible, note, say_interrupted
from relmo.cli.studies import bench, neighbors, probe, report
from relmo.cli.tasks import evaluate, fill_in_number, predict, train
from relmo.errors import RelmoError, exit_code
from relmo.progress import printable

app = typer.Typer(
    name="relmo",
    help="Context-aware word vectors from characters: train, load, search and serve ELMo.",
    epilog='Example: echo "The bank raised rates." | relmo embed - -o vectors.h5',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS: dict[str, dict[Callable[..., None], str]] = {
    "Models and vectors": {
        embed: 'echo "The bank raised rates." | relmo embed - -o vectors.h5',
        models: "relmo models --json",
        info: "relmo info relmo-en-small",
        convert: "relmo convert relmo-en-small official --to hdf5",
        pretrain: "relmo pretrain --recipe small --data 'text/*.txt' --output runs/mine",
        perplexity: "relmo perplexity held_out.txt --model runs/mine/model",
        surprisal: 'echo "The horse raced past the barn fell." | relmo surprisal -',
    },
    "Tasks": {
        train: "relmo train ner --data conll2003 --output runs/ner",
        evaluate: "relmo evaluate runs/ner --data conll2003/test.txt",
        predict: 'echo "Ada Lovelace lived in London." | relmo predict runs/ner',
    },
    "Search and serving": {
        index: "relmo index notes --out notes.relmo",
        search: 'relmo search notes.relmo "walks along the river" -k 5',
        serve: "relmo serve --index notes.relmo --port 8000",
    },
    "Studies": {
        probe: "relmo probe pos --data ud-ewt --model relmo-en-small",
        neighbors: 'relmo neighbors bank "We sat on the bank ." --corpus news.txt',
        senses: "relmo senses bank --corpus news.txt",
        change: "relmo change cell --before 1900.txt --after 2000.txt --picture cell.svg",
        report: "relmo report --runs runs --output report",
        bench: "relmo bench --text sentences.txt --precision float32",
    },
}
"""Heading of the help -> command -> its example."""
for _heading, _commands in COMMANDS.items():
    for _command, _example in _commands.items():
        _run = _command if _command is serve else interruptible(_command)  # serve has its own way
        app.command(rich_help_panel=_heading, epilog=f"Example: {_example}")(_run)


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
    """Options before the subcommand."""


def main(args: list[str] | None = None) -> None:
    """Run the command line; an error that the user can fix is one line on standard error."""
    warnings.showwarning = _warn
    given = sys.argv[1:] if args is None else args
    try:
        app(fill_in_number(given), prog_name="relmo")  # not "python -m relmo"
    except RelmoError as error:
        _print_error(error)
        sys.exit(exit_code(error))
    except Stopped as stopped:
        sys.exit(say_interrupted(stopped.cause, given))
    except KeyboardInterrupt as error:  # before the command began
        sys.exit(say_interrupted(error, given))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # e.g. `| head`
        sys.exit(1)
    except OSError as error:  # standard output is full or closed
        _print_error(error)
        sys.exit(1)


def _print_error(error: Exception) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    console.print(printable(f"relmo: {error}"))


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line, without the place in the code, which means little to users."""
    note(str(message))


if __name__ == "__main__":
    main()
