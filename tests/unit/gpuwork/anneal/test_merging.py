"""Results of parts that are merged by several at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from gpuprov.shapes.anneal_settings import AnnealSettings
from gpuwork.anneal.local import run_parts_here
from gpuwork.anneal.order import write_annealed_run
from gpuwork.anneal.part import Interrupted, run_part
from gpuwork.anneal.tree import TREE, climb, merge_all, write_whole
from gpuwork.shared_folder import only_one
from tests.unit.gpuwork.anneal.conftest import LINE

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.anneal import AnnealBest
    from gpuwork.anneal.order import AnnealedRun
    from gpuwork.anneal.result import Result


def run_in_two_parts(here: Path) -> AnnealedRun:
    settings = AnnealSettings(dimensions=1, thread_count=8, max_steps=40, initial_temp=1.0)
    run = write_annealed_run(here / "run", name="line", model=LINE, settings=settings, parts=2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda part: run_part(run, part, stop=threading.Event()), range(2)))
    return run


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_a_part_leaves_merging_to_who_is_at_it(here: Path) -> None:
    run = run_in_two_parts(here)
    (run.folder / TREE).mkdir()
    with only_one(run.folder / TREE, name="x", log=here, lock="1-0.lock"):
        climb(run, 0)
    assert [*(run.folder / TREE).glob("*.npz")] == []
    climb(run, 1)
    assert (run.folder / "best.npz").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_a_run_that_is_interrupted_while_it_is_merged_is_not_done(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    monkeypatch.setattr("gpuwork.anneal.local.merge_within", lambda *_, **__: stop.set())
    with pytest.raises(Interrupted):
        run_parts_here(run_in_two_parts(here), ("", ""), stop=stop, say=lambda _: None)


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_several_that_merge_at_once_write_the_whole_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_in_two_parts(here)
    written = []

    def write_slowly(folder: Path, found: Result, best: AnnealBest) -> None:
        written.append(folder)
        threading.Event().wait(0.2)
        write_whole(folder, found, best)

    monkeypatch.setattr("gpuwork.anneal.tree.write_whole", write_slowly)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: merge_all(run), range(3)))
    assert written == [run.folder]
