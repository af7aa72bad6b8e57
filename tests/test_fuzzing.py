"""A short version of `make fuzz`: damaged inputs are read or refused, and a fault would be seen."""

import random
from pathlib import Path

from fuzzing import Target, fuzz, mutate, targets
from selfsort.errors import DataError

N_INPUTS = 45


def test_every_reader(tmp_path: Path) -> None:
    names = []
    for target in targets(tmp_path):
        (tmp_path / "inputs").mkdir(exist_ok=True)
        outcome = fuzz(target, tmp_path / "inputs", seed=1, n_inputs=N_INPUTS)
        assert outcome.findings == {}, target.name
        assert outcome.read + outcome.refused == N_INPUTS
        assert outcome.refused, target.name
        names.append(target.name)
    assert len(names) == len(set(names)) >= 34


def test_faults_are_findings(tmp_path: Path) -> None:
    def fault(path: Path) -> None:
        raise (IndexError("x") if path.read_bytes()[:1] == b"a" else DataError("two\nlines"))

    found = fuzz(Target(fault, [b"abcd"], 1, "x"), tmp_path, seed=0, n_inputs=50).findings
    assert {name.split(":")[0] for name in found} == {"IndexError", "not one line"}
    assert len(list(tmp_path.glob("finding-*"))) == 2


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, second = (
        [mutate(b"abc 123", draw, [b"xyz"]) for _ in range(20)]
        for draw in (random.Random(0), random.Random(0))
    )
    assert first == second
    assert len(set(first)) > 10
