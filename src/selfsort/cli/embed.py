"""`selfsort embed`: images to their latent representation."""

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from selfsort.cli.console import callbacks, echo, print_written
from selfsort.cli.options import base_name, load_model_and_images, new_file, source_options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@click.command("embed")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("source")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write.  [default: NAME-embedding.npy]",
)
@source_options
def command(run: Path, source: str, out: Path | None, as_json: bool, **options: Any) -> None:
    """Write the latent representation F of the images in SOURCE as an .npy file."""
    from selfsort.files import save_pieces

    out = out or new_file(f"{base_name(source)}-embedding.npy")
    with callbacks() as told:
        sorter, images = load_model_and_images(run, source, options, told)
        shape = [len(images), sorter.config_.network.latent_width]
        save_pieces(out, _npy_pieces(shape, sorter.transform_batches(images)))
    if as_json:
        echo(json.dumps({"shape": shape, "written": [str(out)]}))
    else:
        echo(f"{shape[0]:,} × {shape[1]} numbers")
        print_written([str(out)])


def _npy_pieces(
    shape: list[int], batches: "Iterable[NDArray[np.float32]]"
) -> Iterator[bytes | memoryview]:
    """An .npy file, written as its numbers come."""
    import numpy as np

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": tuple(shape)}
    )
    yield header.getvalue()
    for batch in batches:
        yield np.ascontiguousarray(batch, dtype="<f4").data.cast("B")
