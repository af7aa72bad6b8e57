"""Numbers to drawn lines."""

import pytest

from selfsort.report.charts import (
    HEIGHT,
    WIDTH,
    count_chart,
    line_chart,
    nice_ticks,
    spectrum_chart,
    training_charts,
)


@pytest.mark.parametrize(
    "bounds", [(0, 1), (0, 0), (0.67, 1), (-3, 8), (1, 60), (0, 1e9), (5, 5), (1e-9, 2e-9), (1, 2)]
)
def test_ticks_cover_the_range_and_are_few(bounds: tuple[float, float]) -> None:
    ticks = nice_ticks(*bounds)
    assert ticks[0] <= bounds[0] + 1e-9
    assert ticks[-1] >= bounds[1] - 1e-9
    assert 2 <= len(ticks) <= 7
    assert ticks == sorted(set(ticks))


@pytest.mark.parametrize(
    "values",
    [[1.0], [1.0, 2.0], [0.0] * 5, [3.0, float("nan"), 1.0], [float("inf")], list(range(500))],
)
def test_lines_stay_inside(values: list[float]) -> None:
    chart = line_chart("x", {"a": values, "b": values[::-1]}, x_label="epoch")
    for line in chart.lines:
        numbers = (
            [float(number) for point in line.path[1:].split("L") for number in point.split()]
            if line.path
            else []
        )
        assert all(0 <= x <= WIDTH for x in numbers[::2])
        assert all(0 <= y <= HEIGHT for y in numbers[1::2])
        assert "nan" not in line.path
    assert all(0 <= tick.place <= WIDTH for tick in chart.x_ticks)
    assert all(0 <= tick.place <= HEIGHT for tick in chart.y_ticks)
    assert len({tick.label for tick in chart.y_ticks}) == len(chart.y_ticks)


def test_higher_is_higher_and_later_is_further_right() -> None:
    (line,) = line_chart("x", {"a": [1.0, 3.0, 2.0]}, x_label="epoch").lines
    (x1, y1), (x2, y2), (x3, y3) = line.dots
    assert x1 < x2 < x3
    assert y2 < y3 < y1
    assert line.last == "2"


def test_rounds_of_a_stage_follow_each_other_and_terms_are_grouped() -> None:
    terms = {
        "loss": 2.0,
        "classification": 1.0,
        "affinity": 0.1,
        "balance": 0.9,
        "frobenius": 9e3,
        "pseudo_accuracy": 0.5,
    }
    history = [{"stage": "training", "epoch": 1, "terms": terms}]
    history += [
        {"stage": f"recluster-{round_}", "epoch": 1, "terms": {"loss": 1.0, "target_accuracy": 0.5}}
        for round_ in (1, 2)
    ]
    charts = training_charts(history)
    assert {stage: [chart.title for chart in found] for stage, found in charts.items()} == {
        "Pseudo-supervised training": ["Loss", "Shares", "Activity"],
        "Reclustering": ["Loss", "Shares"],
    }
    assert [line.name for line in charts["Pseudo-supervised training"][1].lines] == [
        "pseudo accuracy",
        "affinity α",
        "balance β",
    ]
    assert len(charts["Reclustering"][0].lines[0].dots) == 2
    assert training_charts([]) == {}


def test_the_spectrum_marks_the_number_of_clusters() -> None:
    chart = spectrum_chart([1, 0.99, 0.98, 0.6, 0.5], 3)
    assert chart.mark is not None
    assert chart.lines[0].dots[2][0] < chart.mark.place < chart.lines[0].dots[3][0]
    assert "3 clusters" in chart.description
    assert spectrum_chart([1, 0.9], None).mark is None


def test_the_curve_of_numbers_is_labelled_by_them_and_marks_the_one_that_was_taken() -> None:
    chart = count_chart([(2, -0.1), (5, 0.3), (10, 0.9), (20, 0.1)], 10)
    assert {tick.label for tick in chart.x_ticks} <= {"2", "5", "10", "20"}
    assert chart.mark is not None
    assert (chart.mark.label, chart.mark.place) == ("10 clusters", chart.lines[0].dots[2][0])
    assert count_chart([(2, 0.1), (5, 0.3)], 4).mark is None
