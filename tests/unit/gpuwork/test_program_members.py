"""Who leads a run, and its workers: what it does when some are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.shapes.base import read
from gpuprov.shapes.error import Error
from gpuprov.shapes.program_answers import Updated
from gpuprov.shapes.program_rounds import RoundShare, ShareAnswer, SliceResult
from gpuprov.shapes.program_runs import ProgramFolder
from gpuwork.errors import BatchError, WorkError
from gpuwork.programs import members
from gpuwork.programs.balance import Balance
from gpuwork.programs.drive import MOST_DEATHS, Leader
from gpuwork.programs.lead import lead
from gpuwork.programs.members import Members, WorkersLost
from gpuwork.programs.process import ProgramError
from gpuwork.programs.rounds import NotWhole
from gpuwork.programs.run_folder import KEY, RunFolder

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from gpuprov.shapes.program_rounds import RowSlice
    from gpuwork.programs.process import ProgramProcess


class Few(Members):
    """Workers that answer, but for those that are dead, and what they are told to get wrong."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.dead: set[str] = set()
        self.asked: list[str] = []
        self.wrong: ShareAnswer | None = None
        self.speeds: dict[str, float] = dict.fromkeys(addresses, 1.0)
        self.taken: list[RowSlice] = []

    def connected(self) -> list[str]:
        return [address for address in self.addresses if address not in self.dead]

    def alive(self, *, without: Collection[str]) -> list[str]:
        return [address for address in self.connected() if address not in without]

    def ask(self, address: str, verb: str, **given: Any) -> ShareAnswer:  # noqa: ARG002
        if self.wrong is not None:
            return self.wrong
        return self._answer(read(RoundShare, given["share"]), given.get("number", -1))

    def _answer(self, share: RoundShare, number: int) -> ShareAnswer:
        self.asked.append(share.address)
        if share.address in self.dead:
            return ShareAnswer(lost=(share.address,))
        self.taken += share.slices if number < 0 else ()
        parts = [self._result(share.address, one, number) for one in share.slices]
        lost: list[str] = []
        for other in share.others:
            answer = self._answer(other, number)
            parts += answer.parts
            lost += answer.lost
        return ShareAnswer(parts=tuple(parts), lost=tuple(lost))

    def _result(self, address: str, part: RowSlice, number: int) -> SliceResult:
        seconds = (part.stop - part.start) / self.speeds[address]
        return SliceResult(round=number, numbers=(part.number,), content=b"x", seconds=(seconds,))


class Process:
    """A program that needs so many rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def ask(self, *_: object, **__: object) -> tuple[dict[str, Any], list[bytes]]:
        return {}, [b"xx"]

    def learn(self, *_: object, **__: object) -> tuple[Updated, list[bytes]]:
        self.rounds -= 1
        return Updated(done=self.rounds == 0), [b"state"]


def led(few: Few, rows: int = 16, rounds: int = 3) -> Leader:
    leader = Leader(few, cast("ProgramProcess", Process(rounds)), tell=lambda _: None)
    leader.divide(rows, dict.fromkeys(few.addresses, 1.0))
    return leader


def test_a_dead_worker_s_slice_goes_to_one_with_the_fewest_rows() -> None:
    few = Few("a", "b", "c")
    leader = led(few)
    few.dead.add("b")
    outcome = leader.iterate()
    assert (outcome.iterations, outcome.moved) == (3, 1)
    rows = dict.fromkeys(few.addresses, 0)
    for part, holder in outcome.holders.items():
        rows[holder] += part.stop - part.start
    assert rows["b"] == 0
    assert sum(rows.values()) == 16


def test_rows_are_divided_by_the_rates_that_were_measured() -> None:
    few = Few("a", "b", "c")
    few.speeds |= {"b": 4.0}
    outcome = led(few, rows=600, rounds=6).iterate()
    rows = {holder: part.stop - part.start for part, holder in outcome.holders.items()}
    assert rows == {"a": 100, "b": 400, "c": 100}
    assert [(part.start, part.stop) for part in few.taken] == [(0, 200), (200, 400), (400, 600), (0, 100), (100, 500),
                                                               (500, 600)], "once more, and no row is lost"  # fmt: skip
    assert sorted(part.number for part in few.taken) == [0, 1, 2, 3, 4, 5], "no result can be taken for an old one"
    assert outcome.moved == 0


def test_who_took_over_the_rows_of_another_does_not_keep_them_all() -> None:
    few = Few("a", "b", "c")
    leader = led(few, rows=300, rounds=5)
    few.dead.add("b")
    outcome = leader.iterate()
    assert sorted(part.stop - part.start for part in outcome.holders) == [150, 150]


def test_rows_stay_where_moving_them_costs_more_than_it_gains() -> None:
    balance = Balance(cost_s=10.0)
    rows, seconds = {"a": 50, "b": 50}, {"a": 1.0, "b": 3.0}  # 1.5 s each would do
    for _ in range(7):
        balance.add(rows, seconds)
        assert balance.better_rates() is None
    balance.add(rows, seconds)
    assert balance.better_rates() == pytest.approx({"a": 50.0, "b": 50 / 3})


def test_rows_stay_where_workers_are_about_equal() -> None:
    balance = Balance(cost_s=0.0)
    for _ in range(1000):
        balance.add({"a": 50, "b": 50}, {"a": 1.0, "b": 1.2})
        assert balance.better_rates() is None


def test_the_first_of_the_tree_may_die() -> None:
    few = Few("a", "b", "c", "d", "e", "f")
    leader = led(few)
    few.dead.add("a")
    assert leader.iterate().moved == 1


def test_a_slice_that_ends_workers_ends_the_run() -> None:
    few = Few(*"abcdef")
    leader = led(few)

    def die(share: RoundShare, number: int) -> ShareAnswer:
        few.dead |= {share.address}
        return ShareAnswer(lost=(share.address,), parts=()) if number >= 0 else ShareAnswer()

    few._answer = die  # type: ignore[method-assign]
    with pytest.raises(ProgramError, match=f"{MOST_DEATHS} workers died while they had the rows"):
        leader.iterate()


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [SliceResult(round=0, numbers=(0,), content=b"")],
        [SliceResult(round=5, numbers=(0, 1), content=b"")],
        [SliceResult(round=0, numbers=(0, 1, 1), content=b"")],
    ],
)
def test_a_round_that_is_not_whole_ends_the_run(parts: list[SliceResult]) -> None:
    few = Few("a", "b")
    leader = led(few)
    few.wrong = ShareAnswer(parts=tuple(parts))
    with pytest.raises(NotWhole):
        leader.iterate()


def test_the_first_failure_of_a_program_is_told() -> None:
    few = Few("a", "b")
    leader = led(few)
    few.wrong = ShareAnswer(failed=("it failed", "because", "do this"))
    with pytest.raises(ProgramError) as error:
        leader.iterate()
    assert (error.value.what, error.value.evidence, error.value.fix) == ("it failed", "because", "do this")


class Told(Members):
    """What the scheduler says, again and again."""

    def __init__(self, *said: list[str]) -> None:
        super().__init__(cast("Any", None), lambda: None)
        self.said = [*said]

    def connected(self) -> list[str]:
        return self.said.pop(0) if len(self.said) > 1 else self.said[0]


@pytest.mark.slow
def test_without_a_worker_the_run_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "ALONE_S", 0.3)
    with pytest.raises(WorkersLost, match="no worker is left"):
        Told([]).alive(without=["a"])
    assert Told([], [], ["b"]).alive(without=["a"]) == ["b"]


def test_a_worker_that_failed_once_and_is_still_there_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "SETTLE_S", 0.2)
    assert Told(["a"]).alive(without=["a"]) == ["a"]
    assert Told(["a"], ["a", "b"]).alive(without=["a"]) == ["b"]


def test_a_scheduler_that_ended_is_noticed() -> None:
    def ended() -> None:
        raise WorkError("the scheduler ended", evidence="status 1", fix="tail")

    told = Told([])
    told._lives = ended
    with pytest.raises(WorkError, match="the scheduler ended"):
        told.alive(without=["a"])


def test_a_leader_that_fails_for_whatever_reason_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("Dask is confused")

    monkeypatch.setattr("gpuwork.programs.lead._lead", fail)
    record = ProgramFolder(path=str(tmp_path), program="", workers=1, is_table=True, local=False)
    run = RunFolder(path=tmp_path, record=record)
    (tmp_path / KEY).write_text("secret")
    with pytest.raises(BatchError, match="the process that leads the run failed: RuntimeError") as caught:
        lead(run, gpus=[None], tell=lambda _: None)
    assert "Dask is confused" in caught.value.evidence
    end = run.find_end()
    assert isinstance(end, Error)
    assert end.error.exit_code == 4
    assert not (tmp_path / KEY).exists()
