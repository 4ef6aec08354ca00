"""What a command calls is counted, and docs/principles.md has the figures of now, a tenth more or less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.trace_story import PAGE, find_table, read_table, render, trace, trace_all
from gpuprov.cluster.state import observe_cluster

if TYPE_CHECKING:
    from tests.fakes.world import World

AGAIN = "python3 -m benchmarks.trace_story --write"


def test_what_was_handed_down_climbs_in_whichever_thread_it_is_called(world: World) -> None:
    found = trace(lambda: observe_cluster(world.driver, "lab"))
    assert {"cluster/state.py", "core/side_by_side.py"} <= found.files
    assert ("cluster/state.py", "core/side_by_side.py") in found.calls
    assert found.climbs == [("core/side_by_side.py", "cluster/state.py")] * 2  # for nodes, and for networks
    assert found.figures[2:] == (2, 1)


def test_the_table_is_read_as_it_was_written() -> None:
    figures = {"`rm`": (62, 598, 16, 5), "`cluster up`, over three hosts": (163, 4023, 196, 17)}
    assert read_table(render(figures)) == figures


@pytest.mark.slow
def test_the_page_has_the_figures_of_now() -> None:
    told = read_table(find_table(PAGE.read_text()))
    found = {words: one.figures for words, one in trace_all().items()}
    assert found.keys() == told.keys(), f"another command is traced: {AGAIN}"
    off = {
        words: f"{told[words]} was written, {figures} are found"
        for words, figures in found.items()
        if any(abs(now - then) > then / 10 for then, now in zip(told[words], figures, strict=True))
    }
    assert off == {}, f"by more than a tenth; where that is meant: {AGAIN}"
