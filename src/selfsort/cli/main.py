"""The command line: arguments in, one-line errors out."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError

from selfsort import __version__
from selfsort.cli.remedies import in_flags
from selfsort.errors import SelfsortError
from selfsort.text import printable

WAITING = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1", "OPENBLAS_NUM_THREADS": "1"}
"""How threads wait for each other, to be set before torch and numpy are imported, unless the user
has set it: those of OpenMP (GNU's and LLVM's) spin for a moment and then sleep; OpenBLAS, which
numpy and scipy have for clustering, has one thread. As they come, the threads of two processes stop
each other."""


TOO_LITTLE = "not enough memory; use fewer or smaller images, or a smaller network."
NO_MEMORY = (
    "allocate memory",
    "out of memory",
    "failed to map segment",
    "can't start new thread",
)
"""How torch says it on a CPU and on a GPU, the loader of libraries, and Python."""

SHARED = {"console", "main", "options", "remedies"}
"""The modules beside this one that are not commands."""


class _Group(click.Group):
    """Turns every error that a user can meet into one line and a non-zero exit."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        # a file name that the terminal cannot show is no reason to fail
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        with _one_line_errors():
            return super().make_context(*arguments, **options)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every module of this package is a command but those that commands share."""
        modules = iter_modules([str(Path(__file__).parent)])
        return sorted({module.name for module in modules} - SHARED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        found: click.Command = import_module(f"selfsort.cli.{cmd_name}").command
        return found

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
    except (MemoryError, RuntimeError, ImportError) as error:
        if not isinstance(error, MemoryError) and not any(way in str(error) for way in NO_MEMORY):
            raise
        raise click.ClickException(TOO_LITTLE) from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # click ends quietly when nobody reads on
            raise
        if error.errno == errno.ENOMEM or "failed to map segment" in str(error):
            raise click.ClickException(TOO_LITTLE) from error
        raise click.ClickException(
            _line(f"{error.filename or 'system'}: {error.strerror or error}.")
        ) from error


def _line(message: object) -> str:
    return printable(in_flags(" ".join(str(message).split())))


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
)
@click.version_option(__version__)
def main() -> None:
    """Sort unlabelled images into their natural classes.

    SOURCE is a folder of images, an image, an .npy or .npz file, or a named data set: digits,
    mnist, usps, svhn (a split is named as in mnist:test).
    """
    for name, value in WAITING.items():
        if "OMP_WAIT_POLICY" not in os.environ or name == "OPENBLAS_NUM_THREADS":
            os.environ.setdefault(name, value)
