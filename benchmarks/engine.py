"""How fast the paper's training runs, plain and with selfsort, side by side in one run.

    python benchmarks/engine.py [--rounds 6] [--steps 5] [--threads N] [--out
    benchmarks/engine.json]

Processes take turns, a few steps each: `plain.py`, as a practitioner would write it, and selfsort's
own training loop with recipe `paper`, in 32 bits and, where the processor multiplies them by
itself, in 16. The last case is recipe `standard`, which `plain.py` does not know. All do everything
that a step takes (reading, transforming, learning). Between the turns this process measures the
machine's sgemm peak, so all figures come from the same minutes. Nothing else should run meanwhile.
"""

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from plain import PlainNetwork, plain_batches, plain_loss
from selfsort.cli.main import WAITING
from selfsort.data.image_set import as_image_set
from selfsort.method.devices import has_bfloat16, prepare_process
from selfsort.method.transforms import DIHEDRAL
from selfsort.recipes import get_recipe
from selfsort.sorting.trained import start_network
from selfsort.training.hooks import Hooks
from selfsort.training.loop import Progress, run_loop
from selfsort.training.pretrain import training_task

CASES = (("paper", 1, 16), ("paper", 1, 28), ("paper", 3, 32), ("standard", 1, 16))
"""Recipe, channels and side."""

PLAIN = "plain"
BATCH, N_IMAGES = 400, 20_000
PHASES = ("data", "forward", "backward", "optimiser")
Step = dict[str, float]


def plain_steps(pixels: Any) -> Iterator[Step]:
    """One step after the other, with the seconds of each phase."""
    images = torch.from_numpy(pixels)
    network = PlainNetwork(images.shape[1], images.shape[2])
    optimizer = torch.optim.Adam(network.parameters())
    batches = plain_batches(images, BATCH)
    while True:
        times = [time.perf_counter()]
        batch, parents = next(batches)
        times.append(time.perf_counter())
        loss = plain_loss(network(batch), parents)
        times.append(time.perf_counter())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        loss.item()
        times.append(time.perf_counter())
        optimizer.step()
        times.append(time.perf_counter())
        yield dict(zip(PHASES, np.diff(times).tolist(), strict=True))


def selfsort_steps(pixels: Any, recipe: str, bits: int, tell: Callable[[Step], None]) -> None:
    """The same by selfsort's own loop: `tell` is called after every step, and may keep the loop
    waiting.
    """
    images = as_image_set(pixels)
    changes = {"training.epochs": 1_000_000, "training.batch_size": BATCH, "precision": bits}
    config = get_recipe(recipe).replace(changes)
    trained = start_network(images, config=config, seed=0, hooks=Hooks(device="cpu"))
    task = training_task(
        trained.network, trained.inputs(images), transforms=DIHEDRAL, config=config, seed=0
    )
    marks: dict[str, float] = {}

    def mark(name: str) -> None:
        marks[name] = time.perf_counter()

    def batches(epoch: int, start: int) -> Iterator[Any]:
        for batch in task.batches(epoch, start):
            mark("data")
            yield batch

    def loss(batch: Any) -> Any:
        terms = task.loss(batch)
        mark("forward")
        return terms

    def finish(progress: Progress) -> None:
        mark("optimiser")
        moments = [marks["begin"], *(marks[phase] for phase in PHASES)]
        tell(dict(zip(PHASES, np.diff(moments).tolist(), strict=True)))
        mark("begin")

    task.optimizer.register_step_pre_hook(lambda *ignored: mark("backward"))
    mark("begin")
    run_loop(replace(task, batches=batches, loss=loss), on_progress=finish)


KINDS = {
    "convolutions": ("conv",),
    "matrix products": ("mm",),
    "ReLU": ("relu", "threshold", "clamp_min"),
    "pooling": ("max_pool", "fill_", "zero_"),
    "dropout": ("dropout", "bernoulli", "random_", "aten::ge", "aten::mul", "aten::div"),
    "copies": ("copy_", "clone", "cat", "stack"),
    "optimiser": ("adam", "add", "sqrt", "lerp", "Optimizer"),
}
"""Kinds of operations and what their names have in them; the first that fits counts."""


def shares_of_time(profiler: torch.profiler.profile) -> dict[str, float]:
    """The share of each kind of operation in the processor time."""
    shares = dict.fromkeys([*KINDS, "rest"], 0.0)
    for entry in profiler.key_averages():
        kind = next(
            (kind for kind, parts in KINDS.items() if any(part in entry.key for part in parts)),
            "rest",
        )
        shares[kind] += entry.self_cpu_time_total
    return {kind: round(share / sum(shares.values()), 3) for kind, share in shares.items()}


class Turns:
    """Keeps a process waiting until it is asked for steps, then answers with their times and the
    most memory so far.
    """

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.done: list[Step] = []
        self.n_steps = 0
        self.profiler: torch.profiler.profile | None = None

    def tell(self, step: Step) -> None:
        """A step is done."""
        self.done.append(step)
        if len(self.done) < self.n_steps:
            return
        if self.n_steps:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            if self.profiler:
                self.profiler.stop()
            self.pipe.send(
                (self.done, memory, shares_of_time(self.profiler) if self.profiler else None)
            )
        self.done = []
        self.n_steps, with_profile = self.pipe.recv()
        if not self.n_steps:
            raise SystemExit
        self.profiler = (
            torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
            if with_profile
            else None
        )
        if self.profiler:
            self.profiler.start()


def work(kind: str, case: tuple[str, int, int], threads: int | None, pipe: Connection) -> None:
    """A process of its own that trains by turns."""
    recipe, channels, size = case
    pixels = np.random.default_rng(0).integers(
        256, size=(N_IMAGES, channels, size, size), dtype=np.uint8
    )
    turns = Turns(pipe)
    if kind == PLAIN:
        torch.set_num_threads(threads or torch.get_num_threads())
        for step in plain_steps(pixels):
            turns.tell(step)
    else:
        prepare_process(threads)
        selfsort_steps(pixels, recipe, int(kind.split()[0]), turns.tell)


def step_flops(channels: int, size: int) -> int:
    """Floating-point operations of forward and backward, as torch counts them: convolutions and
    matrix products.
    """
    network = PlainNetwork(channels, size)
    with FlopCounterMode(display=False) as counter:
        images = torch.rand(BATCH, channels, size, size)
        loss = plain_loss(network(images), torch.arange(BATCH) % 8)
        loss.backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


def sgemm_peak(size: int = 2048, repeats: int = 6) -> float:
    """The machine's best speed for a product of two square matrices, in operations per second."""
    matrix = torch.rand(size, size)
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        torch.mm(matrix, matrix)
        seconds.append(time.perf_counter() - begin)
    return 2 * size**3 / min(seconds)


def compare(
    case: tuple[str, int, int], *, rounds: int, steps: int, threads: int | None
) -> dict[str, Any]:
    """All implementations by turns on one image shape."""
    recipe, channels, size = case
    kinds = [PLAIN] if recipe == "paper" else []
    kinds += ["32 bits", "16 bits"] if has_bfloat16(torch.device("cpu")) else ["32 bits"]
    spawn = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    for kind in kinds:
        pipes[kind], other = spawn.Pipe()
        with patch.dict(os.environ, {} if kind == PLAIN else WAITING):  # as its command line does
            spawn.Process(target=work, args=(kind, case, threads, other), daemon=True).start()
    times: dict[str, list[Step]] = {kind: [] for kind in pipes}
    memory, peaks = dict.fromkeys(pipes, 0.0), []
    ratios: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(rounds + 1):
        peaks.append(sgemm_peak())
        means = {}
        for kind, pipe in pipes.items():
            pipe.send((steps, False))
            done, memory[kind], _ = pipe.recv()
            means[kind] = statistics.mean(sum(step.values()) for step in done)
            if turn:  # the first one warms up
                times[kind] += done
        if turn:
            for kind in kinds:
                ratios[kind].append(means[kinds[0]] / means[kind])
    profiles = {}
    for kind, pipe in pipes.items():
        pipe.send((steps, True))
        *_, profiles[kind] = pipe.recv()
        pipe.send((0, False))
    # torch's counter does not see what a process of its own does; the plain network stands for ours
    flops = step_flops(channels, size) if recipe == "paper" else None
    peak, found = max(peaks), {}
    for kind, done in times.items():
        phases = {phase: statistics.median(step[phase] for step in done) for phase in PHASES}
        inside = statistics.median(sum(step.values()) - step["data"] for step in done)
        found[kind] = {
            "images_per_second": round(
                BATCH / statistics.median(sum(step.values()) for step in done)
            ),
            "ratio": round(statistics.median(ratios[kind]), 2),
            "ratios": [round(ratio, 2) for ratio in ratios[kind]],
            "share_of_peak": round(flops / inside / peak, 3) if flops else None,
            "milliseconds": {phase: round(1000 * seconds, 1) for phase, seconds in phases.items()},
            "peak_memory_mb": round(memory[kind]),
            "profile": profiles[kind],
        }
    return {
        "shape": f"{channels}×{size}×{size}",
        "recipe": recipe,
        "gflop_per_step": round(flops / 1e9, 1) if flops else None,
        "sgemm_gflops": round(peak / 1e9),
        "kinds": found,
    }


def tables(result: dict[str, Any]) -> str:
    """The figures as `RESULTS.md` has them."""
    lines = [
        "| images, recipe | what | images/s | first row by it | of the sgemm peak "
        "| data / forward / backward / optimiser, ms | peak memory, MB |",
        "|---" * 7 + "|",
    ]
    for row in result["cases"]:
        for kind, found in row["kinds"].items():
            ratio = f"**{found['ratio']:.2f}** ({min(found['ratios'])}–{max(found['ratios'])})"
            share = found["share_of_peak"]
            cells = [
                f"{row['shape']}, {row['recipe']}",
                kind,
                f"{found['images_per_second']:,}",
                ratio,
                f"{share:.0%} of {row['sgemm_gflops']} GFLOP/s" if share else "–",
                " / ".join(f"{value:.0f}" for value in found["milliseconds"].values()),
                str(found["peak_memory_mb"]),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    for row in result["cases"]:
        if (row["shape"], row["recipe"]) == ("1×28×28", "paper"):
            lines += ["", "| 1×28×28, share of the time | " + " | ".join([*KINDS, "rest"]) + " |"]
            lines.append("|---" * (len(KINDS) + 2) + "|")
            for kind, found in row["kinds"].items():
                shares = (f"{share:.1%}" for share in found["profile"].values())
                lines.append(f"| {kind} | {' | '.join(shares)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure all shapes, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cases", type=int, nargs="+", default=range(len(CASES)))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "engine.json")
    arguments = parser.parse_args()
    threads = prepare_process(arguments.threads)
    rows = [
        compare(CASES[i], rounds=arguments.rounds, steps=arguments.steps, threads=threads)
        for i in arguments.cases
    ]
    capability = torch.backends.cpu.get_cpu_capability()
    result = {
        "threads": threads,
        "cpu": capability,
        "torch": torch.__version__,
        "batch": BATCH,
        "cases": rows,
    }
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(tables(result))


if __name__ == "__main__":
    main()
