"""Which share of the time that `predict` takes for a folder of JPEG files the network is at work.

    python benchmarks/folder.py [--files 5000] [--side 256] [--threads N] [--sources]

The files are smooth random patterns in colour (16 KB each). The model is recipe `standard`, hardly
trained, which takes as long as a good one: a refined classifier as large sets have it, or with
`--sources` all sources, as small sets have them.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from selfsort.cli.console import print_profile
from selfsort.data.kinds import Reading
from selfsort.sorting.estimator import SelfSort
from selfsort.workflow.images import Callbacks, read_source
from selfsort.workflow.profile import FIRST, Profile

N_FITTED = 300
QUICK = {
    "training.epochs": 1,
    "training.min_steps": 1,
    "training.min_images": 0,
    "refinement.steps": 2,
    "recluster.factor": 0,
    "sources.encoder": "none",
}


def write_files(folder: Path, count: int, side: int) -> None:
    """JPEG files of patterns as coarse and as fine as photographs have them."""
    draw = np.random.default_rng(0)
    for number in range(count):
        layers = [
            np.asarray(
                Image.fromarray(draw.integers(256, size=(cells, cells, 3), dtype=np.uint8)).resize(
                    (side, side), Image.Resampling.BICUBIC
                ),
                dtype=np.float32,
            )
            for cells in (4, 16, 64)
        ]
        mixed = 0.5 * layers[0] + 0.3 * layers[1] + 0.2 * layers[2]
        Image.fromarray(mixed.astype(np.uint8)).save(folder / f"{number:05}.jpg", quality=90)


def main() -> None:
    """Write files, fit some of them, predict all, and print where the time went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--sources", action="store_true")
    arguments = parser.parse_args()
    from selfsort.method.devices import prepare_process

    prepare_process(arguments.threads)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "images"
        folder.mkdir()
        write_files(folder, arguments.files, arguments.side)
        pixels = np.random.default_rng(0).integers(256, size=(N_FITTED, 64, 64, 3), dtype=np.uint8)
        settings = QUICK | {"sources.max_images": 5000 if arguments.sources else 0}
        model = SelfSort(5, settings=settings).fit(pixels).save(place)
        with Profile() as profile:
            told = profile.listen(Callbacks())
            sorter = SelfSort.load(model)
            sorter.on_stage = told.on_stage
            images = read_source(Reading(str(folder)), sorter.model_.reading_size, told)
            told.on_stage("assigning", 0, 1)
            sorter.assign(images)
    profile.stages.pop(FIRST)  # the fit, too
    print_profile(profile)
    busy = profile.total.wall - profile.stages["reading images"].wall
    print(f"the network is at work for {busy / profile.total.wall:.0%} of the time")


if __name__ == "__main__":
    main()
