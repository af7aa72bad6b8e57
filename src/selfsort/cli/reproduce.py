"""`selfsort reproduce`: the paper's tables and figures, one experiment at a time."""

import json
import os
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from selfsort.cli.console import echo, print_written, say, stop_signal
from selfsort.cli.options import parse_changes, threads_option
from selfsort.errors import SelfsortError, TrainingStopped
from selfsort.progress import progress_bars
from selfsort.runs.limits import MAX_SEED

if TYPE_CHECKING:
    from selfsort.reproduce.result import Result
    from selfsort.reproduce.training import LoadImages, Spec


@click.command("reproduce")
@click.argument("name", required=False)
@click.option("--list", "is_list", is_flag=True, help="Show what can be reproduced.")
@click.option("--dataset", default="usps", show_default=True, help="digits, mnist, usps or svhn.")
@click.option(
    "--seeds",
    default="0",
    show_default=True,
    help="Seeds, such as 0,1,2; some experiments use the first only.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    help="Epochs of every training.  [default: the recipe's; 5 with --quick]",
)
@click.option(
    "--recipe",
    default="paper",
    show_default=True,
    help="A named configuration; see `selfsort config`.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Minutes instead of hours: few epochs, at most 10,000 images, marked as such.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change one setting in every training.",
)
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/reproduce"),
    show_default=True,
    help="Where trainings are kept; those that are there are used, or resumed.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="For the results.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The page on all results in --out, written anew each time.  [default: reproduction.md "
    "in --out]",
)
@click.option(
    "--add", is_flag=True, help="With table: keep the other seeds that the result in --out has."
)
@click.option(
    "--redraw", is_flag=True, help="Train nothing: draw the results in --out and the page again."
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the files of named data sets are.",
)
@click.option(
    "--device", default="auto", show_default=True, help="Where to compute: auto, cpu, cuda, mps."
)
@threads_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(name: str | None, is_list: bool, redraw: bool, as_json: bool, **options: Any) -> None:
    """Run one experiment of the paper and write its result, its picture and its section of the
    page.

    A training is done once and shared by all experiments that need it. Ctrl-C leaves a state from
    which the same command resumes.
    """
    from selfsort.reproduce import EXPERIMENTS

    if is_list:
        if as_json:
            echo(json.dumps(EXPERIMENTS))
        else:
            echo(*(f"{key:16} {text}" for key, text in EXPERIMENTS.items()))
        return
    if options["add"] and (redraw or name != "table"):
        raise click.UsageError(
            "--add should go with table, whose seeds stand for themselves, and not with --redraw."
        )
    if name not in EXPERIMENTS and not (redraw and name is None):
        raise click.UsageError(
            f"NAME {name or 'is missing; it'} should be one of: {', '.join(EXPERIMENTS)}."
        )
    options["page"] = options["page"] or options["out"] / "reproduction.md"
    written = _redraw(name, **options) if redraw else _run(str(name), **options)
    if as_json:
        echo(json.dumps({"written": written}))
    else:
        print_written(written)


def _run(
    name: str,
    work: Path,
    out: Path,
    page: Path,
    add: bool,
    data_dir: Path | None,
    device: str,
    threads: int | None,
    **options: Any,
) -> list[str]:
    from selfsort.method.devices import choose_device, prepare_process
    from selfsort.reproduce.page import get_experiment
    from selfsort.reproduce.result import add_runs, earlier_runs, make_result, save_result
    from selfsort.reproduce.style import need_matplotlib
    from selfsort.reproduce.training import Lab

    spec = _spec(**options)
    need_matplotlib()
    prepare_process(threads)
    choose_device(device)
    try:
        with progress_bars(say) as bars, stop_signal() as stopped:
            lab = Lab(
                spec,
                work=work,
                data_dir=data_dir,
                device=device,
                on_progress=partial(bars.training, stopped),
                on_stage=partial(bars.stage, stopped=stopped),
                tell=say,
            )
            if add:
                earlier_runs(
                    out, name, lab
                )  # refuses what could not be added to, before hours are spent
            result = make_result(name, lab, get_experiment(name).measure(lab))
    except TrainingStopped as error:
        raise SelfsortError(
            f"{error} What is done is kept in {work}; the same command resumes it."
        ) from error
    if add:  # read again: another process may have added its seeds meanwhile
        result = add_runs(result, lab, earlier_runs(out, name, lab))
    written = [str(save_result(out, result)), _draw(result, lambda: lab.scored, out)]
    return [*written, _write_page(out, page)]


def _spec(
    dataset: str, seeds: str, epochs: int | None, recipe: str, quick: bool, changes: tuple[str, ...]
) -> "Spec":
    """Everything that is asked for, checked before anything is read."""
    from selfsort.data.datasets import DATASETS
    from selfsort.recipes import get_recipe
    from selfsort.reproduce.training import Spec

    if dataset not in DATASETS:
        raise click.UsageError(f"--dataset {dataset!r} should be one of: {', '.join(DATASETS)}.")
    numbers = [
        int(number) if number.isdecimal() and len(number) < 20 else -1
        for number in seeds.split(",")
    ]
    if not all(0 <= number <= MAX_SEED for number in numbers) or len(set(numbers)) < len(numbers):
        raise click.UsageError(
            f"--seeds {seeds!r} should be different whole numbers from 0 to {MAX_SEED} with "
            "commas between, such as 0,1,2."
        )
    settings = parse_changes(changes)
    get_recipe(recipe).replace(settings)
    return Spec(dataset, recipe, epochs, tuple(numbers), quick, settings)


def _redraw(
    name: str | None, out: Path, page: Path, data_dir: Path | None, **options: Any
) -> list[str]:
    from selfsort.reproduce.result import load_results
    from selfsort.reproduce.style import need_matplotlib
    from selfsort.reproduce.training import load_splits

    need_matplotlib()
    results = [result for result in load_results(out) if name in (None, result.experiment)]
    scored = cache(lambda dataset: load_splits(dataset, data_dir)[1])
    return [
        *(_draw(result, partial(scored, result.dataset), out) for result in results),
        _write_page(out, page),
    ]


def _draw(result: "Result", images: "LoadImages", out: Path) -> str:
    from selfsort.reproduce.page import get_experiment
    from selfsort.reproduce.style import save_picture

    draw = partial(get_experiment(result.experiment).draw, result, images)
    return str(
        save_picture(draw, out / result.experiment / f"{result.stem}.png", f"{result.caption}.")
    )


def _write_page(out: Path, page: Path) -> str:
    from selfsort.files import save_text
    from selfsort.reproduce.page import render_page
    from selfsort.reproduce.result import load_results

    pictures = PurePosixPath(Path(os.path.relpath(out, page.parent)).as_posix())
    save_text(page, render_page(load_results(out), pictures))
    return str(page)
