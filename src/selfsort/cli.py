"""The command line: arguments in, one-line errors out."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError

from selfsort import __version__
from selfsort.commands.config import config_command
from selfsort.commands.embed import embed
from selfsort.commands.explore import explore
from selfsort.commands.fit import fit
from selfsort.commands.inspect import inspect
from selfsort.commands.predict import predict
from selfsort.commands.report import report
from selfsort.commands.reproduce import reproduce
from selfsort.commands.score import score_command
from selfsort.console import printable
from selfsort.errors import SelfsortError

WAITING = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1", "OPENBLAS_NUM_THREADS": "1"}
"""How threads wait for each other, to be set before torch and numpy are imported, unless the user has set it: those of OpenMP
(GNU's and LLVM's) spin for a moment and then sleep; OpenBLAS, which numpy and scipy have for clustering, has one thread. As they
come, the threads of two processes stop each other."""


class _Group(click.Group):
    """Turns every error that a user can meet into one line and a non-zero exit."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        for stream in (sys.stdout, sys.stderr):  # a file name that the terminal cannot show is no reason to fail
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        with _one_line_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _one_line_errors():
            return super().invoke(ctx)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except SelfsortError as error:
        raise click.ClickException(_line(error)) from error
    except NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        hint = f" See: {error.ctx.command_path} --help" if error.ctx else ""
        raise click.UsageError(_line(error.format_message() + hint)) from error
    except (MemoryError, RuntimeError) as error:
        said = str(error)  # torch's ways to say it, on a CPU and on a GPU
        if not isinstance(error, MemoryError) and "allocate memory" not in said and "out of memory" not in said:
            raise
        raise click.ClickException("not enough memory; use fewer or smaller images, or a smaller network.") from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # click ends quietly when nobody reads on
            raise
        raise click.ClickException(_line(f"{error.filename or 'system'}: {error.strerror or error}.")) from error


def _line(message: object) -> str:
    return printable(" ".join(str(message).split()))


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__)
def main() -> None:
    """Sort unlabelled images into their natural classes.

    SOURCE is a folder of images, an image, an .npy or .npz file, or a named data set: digits, mnist, usps, svhn
    (a split is named as in mnist:test).
    """
    for name, value in WAITING.items():
        if "OMP_WAIT_POLICY" not in os.environ or name == "OPENBLAS_NUM_THREADS":
            os.environ.setdefault(name, value)


for command in (fit, report, explore, predict, embed, inspect, score_command, config_command, reproduce):
    main.add_command(command)
