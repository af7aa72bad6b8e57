"""`selfsort embed`: images to their latent representation."""

import json
from pathlib import Path
from typing import Any

import click

from selfsort.commands.common import base_name, load_model_and_images, new_file, source_options
from selfsort.console import progress_bars


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("source")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write.  [default: NAME-embedding.npy]")
@source_options
def embed(run: Path, source: str, out: Path | None, as_json: bool, **options: Any) -> None:
    """Write the latent representation F of the images in SOURCE as an .npy file."""
    import io

    import numpy as np

    from selfsort.files import save_bytes
    from selfsort.machine import prepare_process

    out = out or new_file(f"{base_name(source)}-embedding.npy")
    prepare_process(options["threads"])
    sorter, images = load_model_and_images(run, source, options)
    with progress_bars() as bars:
        sorter.on_stage = bars.stage
        latent = sorter.transform(images)
    buffer = io.BytesIO()
    np.save(buffer, latent)
    save_bytes(out, buffer.getvalue())
    shape = list(latent.shape)
    click.echo(
        json.dumps({"shape": shape, "written": [str(out)]}) if as_json else f"{shape[0]:,} × {shape[1]} numbers\nwrote {out}"
    )
