"""Run at once on a real LXD: exactly the right number win, the others are told why or for whom they wait."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import lxd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import Popen

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

FEW, MANY = 5, 10
MANY_GPUS = {"GPUPROV_SIMULATED_GPUS": "64"}  # other clusters of this machine hold the first ones
READ_S = 30.0  # on a machine that does much else; a holder of the lock that is stopped holds it for ever
repeats = pytest.mark.parametrize("turn", [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 6))])


class Races:
    """Processes that are started together."""

    def __init__(self, gpuprov: Gpuprov, ledger: Ledger, place: Place) -> None:
        self.gpuprov, self.ledger, self.place = gpuprov, ledger, place

    @property
    def more(self) -> tuple[str, ...]:
        return ("--cluster", self.place.cluster, "--role", "plain", "--gpu-mode", "simulated")

    def run(self, name: str, *commands: tuple[str, ...]) -> list[tuple[int, str, str]]:
        """Start them all, wait for all; exit code, stdout and stderr of each."""
        processes = [self.gpuprov.start(*argv) for argv in commands]
        said = [process.communicate(timeout=300) for process in processes]
        ends = [(process.returncode, *texts) for process, texts in zip(processes, said, strict=True)]
        assert not [end for end in ends if "Traceback" in end[2]]
        won, idle, refused = count(ends)
        assert won + idle + refused == len(commands), ends
        self.ledger.add("race", where="lxd", race=name, won=won, idle=idle, refused=refused)
        return ends

    def nodes(self) -> set[str]:
        return {item["name"] for item in lxd("instances?recursion=1") if item["name"].startswith(self.place.mark)}

    def winner(self) -> str:
        """The one node that a race has made."""
        (name,) = self.nodes() - {self.place.node(0)}
        return name


def count(ends: list[tuple[int, str, str]]) -> tuple[int, int, int]:
    """How many changed something, found it done, and were refused in three parts."""
    won = sum(code == 0 and not out.startswith("unchanged\n") for code, out, _ in ends)
    idle = sum(code == 0 and out.startswith("unchanged\n") for code, out, _ in ends)
    refused = sum(code != 0 and all(part in f"\n{said}" for part in PARTS) for code, _, said in ends)
    return won, idle, refused


PARTS = ("\nerror: ", "\nevidence: ", "\nfix: ")


@pytest.fixture(scope="module")
def races(gpuprov: Gpuprov, ledger: Ledger, place: Place) -> Races:
    """With networks already there, so that races are about nodes."""
    gpuprov = replace(gpuprov, environment={**gpuprov.environment, **MANY_GPUS})
    races = Races(gpuprov, ledger, place)
    path = gpuprov.folder / "races.yaml"
    path.write_text(place.spec(count=1, nodes="role: plain"))
    gpuprov("cluster", "up", "-f", str(path), "--no-verify")
    return races


@pytest.fixture(autouse=True)
def only_the_first(races: Races) -> Iterator[None]:
    """A race begins with one node."""
    yield
    extra = races.nodes() - {races.place.node(0)}
    if extra:
        races.gpuprov("rm", *extra)


@repeats
def test_one_name(races: Races, turn: int) -> None:
    name = f"{races.place.mark}-web{turn}"
    ends = races.run(f"{MANY} create-node, one name, the same options", *[("create-node", name, *races.more)] * MANY)
    assert count(ends) == (1, MANY - 1, 0), ends
    assert races.winner() == name


@pytest.mark.long  # tests/unit/lifecycle/test_races.py
@repeats
def test_one_address(races: Races, turn: int) -> None:
    address = races.place.address(0, 70 + turn)
    names = [f"{races.place.mark}-web{number}" for number in range(MANY)]
    commands = [("create-node", name, "--addr", address, *races.more) for name in names]
    ends = races.run(f"{MANY} create-node, one address", *commands)
    assert count(ends) == (1, 0, MANY - 1), ends
    assert {code for code, _, _ in ends} == {0, 2}
    winner = races.winner()
    assert all(winner in said for code, _, said in ends if code)


@pytest.mark.long  # tests/e2e/test_gpus.py has the last one of jobs
@pytest.mark.parametrize("number", [FEW, 50])
def test_the_last_exclusive_gpu(races: Races, number: int) -> None:
    names = [f"{races.place.mark}-gpu{n}" for n in range(number)]
    commands = [("create-node", name, "--gpus", "gpu63", "--exclusive", *races.more) for name in names]
    ends = races.run(f"{number} create-node, the last exclusive GPU", *commands)
    assert count(ends) == (1, 0, number - 1), ends
    winner = races.winner()
    assert [said for code, _, said in ends if code and not (winner in said and "exclusive" in said)] == []


@repeats
def test_up_at_once_and_against_down(races: Races, tmp_path: Path, turn: int) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(races.place.spec(count=1 + turn, nodes="role: plain"))
    nodes = {races.place.node(number) for number in range(1 + turn)}
    up = ("cluster", "up", "-f", str(path), "--no-verify")
    down = ("cluster", "down", races.place.cluster, "--yes")
    ends = races.run("2 cluster up", up, up)
    assert count(ends) == (1, 1, 0), ends
    assert races.nodes() == nodes
    ends = races.run("cluster up against down", up, down)
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert races.nodes() in (set(), nodes)  # whoever came last, and nothing between
    races.gpuprov(*up)
    assert races.gpuprov.json(*up)["unchanged"] is True


def test_who_reads_beside_a_down_says_what_there_is(races: Races, tmp_path: Path) -> None:
    """Or that it went away; nothing that only reads says that it could not change something."""
    place, gpuprov = races.place, races.gpuprov
    looks = (
        *(("list",), ("cluster", "status", place.cluster), ("cluster", "plan", "--name", place.cluster)),
        *(
            ("show", place.node(0)),
            ("verify", "--cluster", place.cluster),
            ("gpus",),
            ("inventory",),
            ("image", "list"),
        ),
    )
    with gpuprov.start("cluster", "down", place.cluster, "--yes") as down:
        while True:
            ended = down.poll() is not None
            readers = [(argv, gpuprov.start(*argv)) for argv in looks]
            for argv, reader in readers:
                _, said = reader.communicate(timeout=300)
                assert "could not change" not in said, said
                assert "Traceback" not in said, said
                if reader.returncode:
                    assert argv[0] in ("show", "verify", "cluster"), said
                    assert all(part in f"\n{said}" for part in PARTS) or argv[0] == "verify", said
            if ended:
                break
        assert down.returncode == 0, down.communicate()
    path = tmp_path / "races.yaml"
    path.write_text(place.spec(count=1, nodes="role: plain"))
    gpuprov("cluster", "up", "-f", str(path), "--no-verify")


def test_a_stop_behind_the_run_that_makes_its_node(races: Races) -> None:
    name = f"{races.place.mark}-web1"
    with races.gpuprov.start("-v", "create-node", name, *races.more) as maker:
        assert maker.stderr
        assert any(line.startswith("plan ...") for line in maker.stderr), "it has the lock"
        said = races.gpuprov("stop", name)
        maker.communicate(timeout=120)
    assert "waiting for " in said.stderr
    assert said.stdout == f"stopped {name}\n"


@contextmanager
def held(races: Races) -> Iterator[Popen[str]]:
    """A run that holds the host's lock and does not go on."""
    with races.gpuprov.start("-v", "create-node", f"{races.place.mark}-held", *races.more) as holder:
        assert holder.stderr
        for line in holder.stderr:
            if line.startswith("node ..."):
                break
        holder.send_signal(signal.SIGSTOP)
        try:
            yield holder
        finally:
            holder.kill()


def test_a_killed_holder_of_the_lock(races: Races) -> None:
    """Readers do not wait for it, writers say for whom they wait, and go on at once when it is dead."""
    with held(races) as holder:
        began_s = time.monotonic()
        cluster = races.place.cluster
        looks = (("list",), ("cluster", "status", cluster), ("cluster", "plan", "--name", cluster), ("doctor",))
        for argv in looks:
            assert "waiting" not in races.gpuprov(*argv).stderr
        assert time.monotonic() - began_s < READ_S
        assert holder.poll() is None
        with races.gpuprov.start("create-node", f"{races.place.mark}-next", *races.more) as waiting:
            assert waiting.stderr
            said = next(line for line in waiting.stderr if "waiting" in line)
            assert f"waiting for process {holder.pid} of " in said
            assert f"create-node {races.place.mark}-held" in said
            began_s = time.monotonic()
            holder.kill()
            _, rest = waiting.communicate(timeout=120)
            assert waiting.returncode == 0, rest
    races.ledger.add(
        "race",
        where="lxd",
        race="create-node behind a killed holder of the lock",
        won=1,
        idle=0,
        refused=0,
        seconds=round(time.monotonic() - began_s, 1),
    )
    races.gpuprov("cluster", "up", "--name", races.place.cluster, "--no-verify")
    assert f"{races.place.mark}-held" not in races.nodes(), "what the killed run left half-made is gone"
