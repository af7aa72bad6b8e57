"""How long a whole fit takes, counted in epochs of the paper's training on the same images.

    python benchmarks/whole.py usps --data-dir DIR [--threads N] [--seed 0] [FIT OPTIONS …]

An epoch has 32 bits, recipe `paper`, and the same threads; some of its steps are measured before
the fit and as many after it, each in a process of their own, and scaled to all of them. The fit is
the command line's, without the report; `--profile` tells what each of its stages takes. Ratios are
given on the clock, and of the processors' time, which other processes disturb less.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from selfsort.cli.main import WAITING


class Seconds(NamedTuple):
    """On the clock, and of all processors together."""

    wall: float
    cpu: float


def epoch(source: str, data_dir: Path | None, threads: int | None, n_measured: int) -> Seconds:
    """One epoch of recipe `paper` in 32 bits, reckoned from the median of some of its steps."""
    from selfsort.data.kinds import load_source
    from selfsort.method.devices import prepare_process
    from selfsort.recipes import get_recipe
    from selfsort.sorting.trained import start_network
    from selfsort.training.hooks import Hooks
    from selfsort.training.loop import Progress, run_loop
    from selfsort.training.pretrain import training_task

    prepare_process(threads)
    images = load_source(source, data_dir=data_dir)
    config = get_recipe("paper").replace({"precision": 32})
    trained = start_network(images, config=config, seed=0, hooks=Hooks(device="cpu"))
    assert trained.transforms is not None, "it was started here"
    task = training_task(
        trained.network,
        trained.inputs(images),
        transforms=trained.transforms,
        config=config,
        seed=0,
    )
    marks: list[Seconds] = []

    class EnoughError(Exception):
        """All steps that are to be measured are done."""

    def mark(progress: Progress) -> None:
        marks.append(Seconds(time.perf_counter(), time.process_time()))
        if len(marks) == n_measured + 2:  # the first warms up
            raise EnoughError

    with suppress(EnoughError):
        run_loop(task, on_progress=mark)
    steps = pairwise(marks[1:])
    taken = [(after.wall - before.wall, after.cpu - before.cpu) for before, after in steps]
    return Seconds(*(task.n_steps * statistics.median(part) for part in zip(*taken, strict=True)))


def whole_fit(source: str, options: list[str]) -> tuple[Seconds, dict[str, Any]]:
    """`selfsort fit`, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "selfsort", "fit", source, "--json", "--no-report"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.perf_counter()
        ended = subprocess.run(
            [*command, "--out", f"{folder}/run", *options], stdout=subprocess.PIPE, check=True
        )
        wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Seconds(wall, cpu), json.loads(ended.stdout)


def main() -> None:
    """Measure an epoch, the fit and the epoch again, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--steps", type=int, default=10, help="of an epoch that are measured")
    arguments, options = parser.parse_known_args()
    if arguments.data_dir:
        options += ["--data-dir", str(arguments.data_dir)]
    if arguments.threads:
        options += ["--threads", str(arguments.threads)]

    def one_epoch() -> Seconds:
        with (
            patch.dict(os.environ, WAITING),
            ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        ):
            settings = (arguments.data_dir, arguments.threads, arguments.steps)
            return pool.submit(epoch, arguments.source, *settings).result()

    first = one_epoch()
    fit, found = whole_fit(arguments.source, options)
    second = one_epoch()
    for name, part in (("clock", 0), ("CPU time", 1)):
        epochs = [first[part], second[part]]
        print(
            f"{name}: fit {fit[part]:.1f} s, epoch {min(epochs):.1f} to {max(epochs):.1f} s, "
            f"ratio {fit[part] / statistics.mean(epochs):.2f}"
        )
    for protocol, scores in found["scores"].items():
        print(f"{protocol}: {100 * scores['accuracy']:.2f}")


if __name__ == "__main__":
    main()
