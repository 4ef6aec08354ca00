"""Charts: nothing of them is cut, and no words of others become markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from gpuprov.render.anneal_chart import render_anneal_chart
from gpuprov.render.figures import COLOURS, draw, put_in_page, put_legend, set_title
from gpuprov.render.program_chart import render_chart
from gpuprov.shapes.anneal import ChainSeries, Run
from gpuprov.shapes.base import changed
from gpuprov.shapes.program_runs import Chart, ChartGroup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPACE = "{http://www.w3.org/2000/svg}"
LONG = "a title of many words " * 9


def words_in(svg: str) -> str:
    return " ".join(" ".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SPACE}text"))


def run(name: str, *values: float, simulated: bool = False) -> Run:
    chain = ChainSeries(chain=0, points=tuple(enumerate(values)))
    return Run(
        name=name, folder="/x", state="done", chains=1, max_steps=9, simulated=simulated, errors=0, warnings=0,
        troubles=(), parts=(), series=(chain,) if values else (),
    )  # fmt: skip


def test_nothing_lies_outside_of_the_picture() -> None:
    figures = []

    def paint(figure: Figure) -> None:
        figures.append(figure)
        axes = figure.subplots()
        set_title(axes, LONG, simulated=True)
        axes.scatter([-1e9, 0, 1e9], [0, 1e-9, 5], label="a label of a group that is long " * 3, clip_on=False)
        put_legend(axes, "what the colours mean, at length " * 2)

    draw(paint, width=8, height=5)
    box = figures[0].get_tightbbox()
    assert (box.x0, box.y0) >= (0, 0)
    assert box.x1 <= 8
    assert box.y1 <= 5


def test_a_title_and_labels_are_whole_and_are_no_markup() -> None:
    groups = (
        ChartGroup(label="$x^2$ <b>&", points=((0.0, 1.0), (2.0, 3.0)), marked=False),
        ChartGroup(label="centroids", points=((1.0, 2.0),), marked=True),
        ChartGroup(label="none", points=(), marked=False),
    )
    words = words_in(render_chart(Chart(title=LONG.strip(), groups=groups), simulated=True))
    assert " ".join(words.split()).count(LONG.strip()) == 1
    assert "SIMULATED" in words
    assert "$x^2$ <b>&" in words
    assert "centroids" in words


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e300, -1e300])
def test_whatever_numbers_are_drawn(value: float) -> None:
    groups = (ChartGroup(label="a", points=((value, -value), (0.0, value)), marked=True),)
    words_in(render_chart(Chart(title="", groups=groups), simulated=False))
    words_in(render_anneal_chart([run("one", value), run("two", value, -value, value / 3)]))
    words_in(render_chart(Chart(title="", groups=()), simulated=False))


def test_each_model_has_an_axis_of_its_own() -> None:
    words = words_in(render_anneal_chart([run("small", 1, 0.5), run("large", 9e6, 8e6, simulated=True), run("none")]))
    for title in ("small: best value of 1 chain", "large: best value of 1 chain SIMULATED", "no chain has a value"):
        assert title in words
    assert "0.5" in words.split("large:")[0], "the axis of one is not that of the other"
    assert "8.0" in words.split("large:")[0].split("small:")[1]


def test_chains_have_colours_and_names_of_their_own_as_far_as_colours_go() -> None:
    def drawn(number: int) -> str:
        series = tuple(ChainSeries(chain=chain, points=((0, chain), (1, 0))) for chain in range(number))
        return render_anneal_chart([changed(run("many", 1), series=series)])

    few = drawn(len(COLOURS))
    assert all(colour in few for colour in COLOURS)
    assert "chain 7" in words_in(few)
    assert "fill: #ffffff" in few, "the paper, on which words are dark"
    assert "chain 8" not in words_in(drawn(len(COLOURS) + 1))


def test_a_page_has_its_own_colours_and_a_chart_has_no_name_twice() -> None:
    def paint(figure: Figure) -> None:
        set_title(figure.subplots(), "title")

    svg = draw(paint, width=4, height=3)
    assert svg == draw(paint, width=4, height=3), "no date, nothing by chance"
    element = put_in_page(svg, 'a "label" <')
    assert element.startswith('<svg role="img" aria-label="a &quot;label&quot; &lt;" ')
    assert "currentColor" in element
    assert "#16181d" not in element
    assert "#ffffff" not in element
    assert 'id="' not in element.replace('id="m', "").replace('id="p', ""), (
        "but marks and clips, named by their content"
    )
