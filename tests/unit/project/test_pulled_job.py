"""Where the results of a job go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.project.pulled_job import PulledJob

if TYPE_CHECKING:
    from pathlib import Path


def test_results_of_a_run_alone_are_wanted(tmp_path: Path) -> None:
    one = PulledJob(tmp_path / "job-7", again="again", is_one=True).wants(("0",))
    many = PulledJob(tmp_path / "job-7", again="again", is_one=False).wants(("0", "2"))
    wanted: tuple[tuple[str, ...], ...] = ((), ("log.txt",), ("work", "deep", "file"), ("done.json",))
    for parts in wanted:
        assert one(parts)
        assert many(("2", *parts))
    for parts in (("home", ".netrc"), (".alive",), ("state.json",)):
        assert not one(parts)
        assert not many(("0", *parts))
    assert many(())
    assert not many(("1", "log.txt"))


def test_links_of_the_project_are_those_at_the_top_of_the_work(tmp_path: Path) -> None:
    one = PulledJob(tmp_path / "job-7", again="again", is_one=True)
    assert one.is_of_project(("work", "train.py"))
    assert not one.is_of_project(("work", "out", "latest"))
    assert not one.is_of_project(("work",))


def test_what_is_in_the_way_stays_and_runs_that_are_there_are_not_copied_again(tmp_path: Path) -> None:
    (tmp_path / "there" / "1").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "there")
    for name, is_one in (("there", True), ("link", False), ("no/such", True)):
        with pytest.raises(UsageError, match="nothing was copied"):
            PulledJob(tmp_path / name, again="again", is_one=is_one)
    assert PulledJob(tmp_path / "there", again="again", is_one=False).lacks(("0", "1")) == ("0",)


def test_runs_that_came_are_moved_and_a_node_that_sends_none_is_told(tmp_path: Path) -> None:
    pulled = PulledJob(tmp_path / "job-8", again="again", is_one=False)
    with pulled.receiving() as place:
        (place / "3").mkdir(parents=True)
        assert pulled.take_in(place, ("3", "4")) == ("3",)
        with pytest.raises(EngineError, match="none of the runs"):
            pulled.take_in(place, ("4",))
    assert [path.name for path in (tmp_path / "job-8").iterdir()] == ["3"]


def test_a_folder_is_made_for_nothing_and_goes_again(tmp_path: Path) -> None:
    with PulledJob(tmp_path / "job-8", again="again", is_one=False).receiving():
        pass
    assert not (tmp_path / "job-8").exists()
