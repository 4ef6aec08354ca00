"""Parts: how chains are divided, and how results come together again."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from gpuprov.shapes.anneal_settings import AnnealSettings
from gpuwork.anneal.division import DIVISION, agree, divide, get_share
from gpuwork.anneal.exchange import exchange, ladder
from gpuwork.anneal.merging import merge_within
from gpuwork.anneal.order import ORDER, read_annealed_run, write_annealed_run
from gpuwork.anneal.part import Interrupted, PartFailed, run_part
from gpuwork.anneal.part_record import FAILURE, RECORD, RESULT
from gpuwork.anneal.result import Result, merge_results, read_result, write_result
from gpuwork.anneal.status import MAX_STEPS
from gpuwork.anneal.tree import TREE
from gpuwork.errors import Elsewhere, StoreError, TimedOut
from tests.schemas import validate
from tests.unit.gpuwork.anneal.conftest import LINE, anneal, changed, read_npz

if TYPE_CHECKING:
    from pathlib import Path

    from gpuwork.anneal.order import AnnealedRun


@pytest.mark.parametrize(
    ("chains", "rates", "shares"),
    [
        (100, [1.0, 1.0], [50, 50]),
        (101, [1.0, 1.0], [51, 50]),
        (1000, [3.0, 1.0], [750, 250]),
        (1000, [3.0, None, 1.0], [500, 333, 167]),
        (10, [None, None], [5, 5]),
        (3, [1e9, 1.0, 1.0], [1, 1, 1]),
        (4, [1e9, 1.0, 1.0], [2, 1, 1]),
        (7, [0.0, 1.0], [4, 3]),
    ],
)
def test_chains_are_divided_by_rate(chains: int, rates: list[float | None], shares: list[int]) -> None:
    found = divide(chains, rates)
    assert sum(found) == chains
    assert all(abs(one - two) <= 1 for one, two in zip(found, shares, strict=True)), found


def test_replicas_of_a_ladder_stay_together() -> None:
    found = divide(800, [1.0, 2.0, 4.0], together=8)
    assert sum(found) == 800
    assert all(share % 8 == 0 for share in found)
    assert found[0] < found[1] < found[2]


def settings(**given: object) -> AnnealSettings:
    told: dict[str, object] = {"dimensions": 1, "thread_count": 8, "max_steps": 40, "initial_temp": 1.0, **given}
    return AnnealSettings(**told)  # type: ignore[arg-type]


def new_run(here: Path, text: str = LINE, *, parts: int = 3, **given: object) -> AnnealedRun:
    return write_annealed_run(here / "run", name="line", model=text, settings=settings(**given), parts=parts)


def run_all(run: AnnealedRun) -> None:
    with ThreadPoolExecutor(run.order.parts) as pool:
        found = [pool.submit(run_part, run, part, stop=threading.Event()) for part in range(run.order.parts)]
        for part, future in enumerate(found):
            future.result()
            merge_within(run, part=part)


def test_parts_agree_on_one_division(here: Path) -> None:
    run = new_run(here, parts=3, thread_count=700)
    with ThreadPoolExecutor(3) as pool:
        found = [pool.submit(agree, run, part, rate) for part, rate in enumerate((1.0, 2.0, 4.0))]
        shares = [future.result() for future in found]
    assert sum(chains for _, chains in shares) == 700
    assert shares[0][0] == 0
    assert abs(shares[0][1] - 100) <= 1
    assert abs(shares[2][1] - 400) <= 2
    assert agree(run, 1, 1e9, patience_s=0) == shares[1], "who comes again has the same chains"


def test_a_part_that_never_comes_keeps_none_waiting(here: Path) -> None:
    run = new_run(here, parts=2, thread_count=100)
    assert agree(run, 1, 5.0, patience_s=0.2) == (50, 50)
    assert agree(run, 0, 500.0) == (0, 50)


@pytest.mark.parametrize(
    "content", ["", "{}", '{"schema": "gpuprov.anneal-division/v1", "version": 1, "shares": [9, 9]}']
)
def test_a_division_that_was_changed_is_refused(content: str, here: Path) -> None:
    run = new_run(here, parts=2)
    (run.folder / DIVISION).write_text(content)
    with pytest.raises(StoreError):
        get_share(run, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_a_run_in_parts_is_the_run_in_one_bit_for_bit(here: Path) -> None:
    run = new_run(here, parts=3)
    run_all(run)
    whole = anneal(thread_count=8, max_steps=40).chains
    found = read_npz(run.folder / "all.npz")
    assert found["values"].tobytes() == whole.values.tobytes()
    assert found["states"].tobytes() == whole.states.tobytes()
    assert found["stopped"].tolist() == ["max_steps"] * 8
    assert read_npz(run.folder / "trace.npz")["trace"][1:].tobytes() == whole.trace[1:].tobytes()
    best = read_npz(run.folder / "best.npz")
    assert best["values"].tolist() == [whole.values.min()]
    assert best["chains"].tolist() == [int(whole.values.argmin())]
    assert all((run.part(part) / RESULT).exists() for part in range(3)), "every part's result is kept"
    assert sorted(path.name for path in (run.folder / TREE).glob("*.npz")) == ["1-0.npz", "1-1.npz", "2-0.npz"]
    for path in (run.folder / ORDER, run.folder / DIVISION, run.part(2) / RECORD):
        validate(json.loads(path.read_text()))
    before = (run.part(1) / RESULT).stat().st_mtime_ns
    run_part(run, 1, stop=threading.Event())
    assert (run.part(1) / RESULT).stat().st_mtime_ns == before, "what is done is not run again"


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_a_part_that_was_killed_is_run_again_with_the_same_chains(here: Path) -> None:
    division, goes_on = here / "run" / DIVISION, here / "goes_on"
    held = f"from pathlib import Path\nDIVISION, GOES_ON = Path({str(division)!r}), Path({str(goes_on)!r})\n"
    held += "def is_held():\n    return DIVISION.exists() and not GOES_ON.exists()\nWIDTH = 4.0"
    model = changed("return old_temp * 0.99", "while is_held():\n        pass\n    return old_temp * 0.99")
    model = changed("WIDTH = 4.0", held, model)
    run = new_run(here, model, parts=2, thread_count=4, max_steps=20)
    stop = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run_part, run, 0, stop=threading.Event())
        second = pool.submit(run_part, run, 1, stop=stop)
        until = threading.Event()
        while not division.exists():
            until.wait(0.05)
        stop.set()  # its node dies
        with pytest.raises(Interrupted):
            second.result()
        goes_on.touch()
        first.result()
    merge_within(run, part=0)
    with pytest.raises(StoreError) as caught:
        merge_within(run)
    assert "1 of 2 parts of line have no result" in caught.value.evidence
    run_part(run, 1, stop=threading.Event())
    merge_within(run, part=1)
    assert (
        read_npz(run.folder / "all.npz")["values"].tobytes()
        == anneal(model, thread_count=4, max_steps=20).chains.values.tobytes()
    )


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_the_time_limit_of_a_run_holds(here: Path) -> None:
    endless = changed("return old_temp * 0.99", "while temp_is(old_temp):\n        pass\n    return old_temp")
    endless = changed("WIDTH = 4.0", "WIDTH = 4.0\ndef temp_is(temp):\n    return temp > 0", endless)
    run = new_run(here, endless, parts=1, run_limit_s=1)
    with pytest.raises(TimedOut) as caught:
        run_part(run, 0, stop=threading.Event())
    assert "run took longer than 1 s" in str(caught.value)
    assert not (run.part(0) / RECORD).exists()


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_the_time_limit_of_compiling_holds(here: Path) -> None:
    hanging = changed("WIDTH = 4.0", "import time\ntime.sleep(600)\nWIDTH = 4.0")
    run = new_run(here, hanging, parts=1, compile_limit_s=1)
    with pytest.raises(TimedOut) as caught:
        run_part(run, 0, stop=threading.Event())
    assert "compile took longer than 1 s" in str(caught.value)


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_a_model_that_never_ends_is_ended_while_it_is_measured_too(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwork.anneal.part.DIVIDE_S", 0)
    endless = changed("return old_temp * 0.99", "while old_temp > 0:\n        pass\n    return old_temp")
    run = new_run(here, endless, parts=2, run_limit_s=1)
    with pytest.raises(TimedOut) as caught:
        run_part(run, 0, stop=threading.Event())
    assert "divide took longer than 1 s" in caught.value.what
    assert caught.value.fix.startswith("raise run_limit_s in the configuration")


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_the_time_limit_of_merging_holds(here: Path) -> None:
    run = new_run(here, parts=1, merge_limit_s=1)
    run_part(run, 0, stop=threading.Event())
    (run.part(0) / RESULT).unlink()
    os.mkfifo(run.part(0) / RESULT)  # read without waiting, so it is no hang; another lock is
    with pytest.raises(StoreError):
        merge_within(run, part=0)
    run2 = write_annealed_run(here / "second", name="line", model=LINE, settings=settings(merge_limit_s=1), parts=2)
    for part in range(2):
        run2.part(part).mkdir()
        (run2.part(part) / RECORD).write_text((run.part(0) / RECORD).read_text())
    (run2.folder / TREE).mkdir()
    from gpuwork.shared_folder import only_one

    with only_one(run2.folder / TREE, name="x", log=here, lock="1-0.lock"), pytest.raises(TimedOut) as caught:
        merge_within(run2)
    assert "merging line took longer than 1 s" in str(caught.value)


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_why_a_part_failed_is_told_as_the_predecessor_did(here: Path) -> None:
    run = new_run(here, changed("WIDTH = 4.0", "WIDTH = 1 // 0"), parts=1)
    with pytest.raises(PartFailed) as caught:
        run_part(run, 0, stop=threading.Event())
    told = json.loads((run.part(0) / FAILURE).read_text())
    assert told.keys() == {"type", "exception", "message"}
    assert (told["type"], told["exception"]) == ("error", "ZeroDivisionError")
    assert "Traceback" in told["message"]
    assert 'model.py", line 5' in caught.value.evidence


@pytest.mark.slow
def test_a_part_on_simulated_gpus_has_the_simulator(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "bin").mkdir()
    (here / "bin/nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100 SIMULATED (UUID: GPU-12345678)'\n")
    (here / "bin/nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{here / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    record = run_part(new_run(here, parts=1), 0, stop=threading.Event(), environment=dict(os.environ))
    assert (record.simulated, record.gpus) == (True, ("GPU-12345678",))


@pytest.mark.usefixtures("simulated")
def test_a_part_that_is_run_elsewhere_is_left_alone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuwork.shared_folder import only_one

    run = new_run(here, parts=1)
    run.part(0).mkdir()
    monkeypatch.setattr("gpuwork.anneal.part.PATIENCE_S", 0)
    with only_one(run.part(0), name="x", log=here), pytest.raises(Elsewhere):
        run_part(run, 0, stop=threading.Event())
    with pytest.raises(StoreError):
        run_part(run, 1, stop=threading.Event())


def test_a_run_that_was_changed_is_refused(here: Path) -> None:
    run = new_run(here)
    assert read_annealed_run(run.folder) == run
    told = json.loads((run.folder / ORDER).read_text())
    for change in ({"parts": 0}, {"name": "../x"}, {"settings": {**told["settings"], "max_steps": 0}}, {"more": 1}):
        (run.folder / ORDER).write_text(json.dumps({**told, **change}))
        with pytest.raises(StoreError):
            read_annealed_run(run.folder)
    (run.folder / ORDER).write_text(json.dumps(told))
    run.model.write_text("other")
    with pytest.raises(StoreError):
        read_annealed_run(run.folder)


def result(first: int, values: list[float], sampled: list[int]) -> Result:
    count = len(values)
    return Result(
        chains=np.arange(first, first + count),
        values=np.array(values),
        states=np.array([[value, 0.0] for value in values]),
        steps=np.full(count, 9),
        temperatures=np.ones(count),
        status=np.full(count, MAX_STEPS, np.int8),
        sampled_steps=np.array(sampled),
        traced_chains=np.arange(first, first + count),
        trace=np.array([[value + step for value in values] for step in sampled]),
    )


def test_merging_keeps_every_chain_and_is_the_same_in_either_order() -> None:
    one, other = result(0, [3.0, 1.0], [0, 10]), result(2, [2.0], [0, 5, 10])
    for found in (merge_results(one, other), merge_results(other, one)):
        assert found.values.tolist() == [3.0, 1.0, 2.0]
        assert found.chains.tolist() == [0, 1, 2]
        assert found.sampled_steps.tolist() == [0, 5, 10]
        assert found.trace.tolist() == [[3.0, 1.0, 2.0], [3.0, 1.0, 7.0], [13.0, 11.0, 12.0]]
        assert found.best == 1
    with pytest.raises(ValueError, match="chain 1 is in both"):
        merge_results(one, result(1, [4.0], [0]))
    assert result(0, [float("nan"), float("inf")], [0]).best is None


def test_results_are_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "result.npz"
    write_result(path, result(0, [1.0], [0]))
    assert read_result(path).values.tolist() == [1.0]
    for content in (b"", b"PK\x03\x04", b"x" * 100):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a file of arrays"):
            read_result(path)
    np.savez(path, values=np.array([object()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="has values"):
        read_result(path)
    write_result(path, result(0, [1.0], [0]))
    arrays = read_npz(path)
    np.savez(path, **{**arrays, "values": np.zeros(2)})
    with pytest.raises(ValueError, match="does not have one value for each chain"):
        read_result(path)
    np.savez(path, **{**arrays, "values": np.array(["x"])})
    with pytest.raises(ValueError, match="values is <U1"):
        read_result(path)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(OSError):  # noqa: PT011
        read_result(path)


def test_a_ladder_goes_from_hot_to_cold() -> None:
    assert ladder(3, hottest=100, coldest=1).tolist() == pytest.approx([100, 10, 1])


def test_an_exchange_gives_the_colder_one_the_lower_energy() -> None:
    temperatures = np.array([100.0, 10.0, 1.0, 100.0, 10.0, 1.0])
    energies = np.array([0.0, 1e6, 5.0, 1e6, 0.0, 5.0])
    found = exchange(energies, temperatures, replicas=3, seed=1, round_=0, first=0)
    assert found.tolist() == [10.0, 100.0, 1.0, 100.0, 10.0, 1.0]
    odd = exchange(energies, temperatures, replicas=3, seed=1, round_=1, first=0)
    assert odd.tolist() == [100.0, 10.0, 1.0, 100.0, 1.0, 10.0], "ranks 1 and 2"


def test_an_exchange_does_not_depend_on_how_ladders_are_divided() -> None:
    rng = np.random.default_rng(1)
    energies, temperatures = rng.normal(size=40), np.tile(ladder(4, hottest=2, coldest=0.5), 10)
    whole = exchange(energies, temperatures, replicas=4, seed=-919, round_=3, first=0)
    part = exchange(energies[8:20], temperatures[8:20], replicas=4, seed=-919, round_=3, first=8)
    assert part.tolist() == whole[8:20].tolist()
    assert sorted(whole[:4]) == sorted(temperatures[:4]), "each temperature stays in its ladder"
    assert whole.tolist() != temperatures.tolist()
    assert whole.tolist() != exchange(energies, temperatures, replicas=4, seed=1, round_=3, first=0).tolist()


def test_exchanges_follow_metropolis() -> None:
    # Two replicas whose exchange is accepted with probability exp(-1)
    temperatures = np.tile([2.0, 1.0], 4000)
    energies = np.tile([2.0, 0.0], 4000)
    found = exchange(energies, temperatures, replicas=2, seed=7, round_=0, first=0)
    share = (found.reshape(-1, 2)[:, 0] == 1.0).mean()
    assert share == pytest.approx(np.exp(-1), abs=0.03)


def test_of_three_that_write_at_once_one_does(here: Path) -> None:
    """Threads of one process too."""
    from gpuwork.shared_folder import write_once

    began = threading.Barrier(3)

    def write(path: Path, content: str) -> bool:
        began.wait(timeout=10)
        return write_once(path, content)

    with ThreadPoolExecutor(3) as pool:
        for number in range(20):
            path = here / str(number)
            wrote = [*pool.map(write, [path] * 3, "abc")]
            assert sum(wrote) == 1
            assert path.read_text() == "abc"[wrote.index(True)]
