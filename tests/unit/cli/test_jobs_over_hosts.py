"""`submit`, `jobs`, `grid` and the page of the queue, typed on a machine that has no engine, for nodes of other hosts.

The program in the fake node is the real one.
"""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli import session
from gpuprov.cli.main import main
from gpuprov.core.errors import EngineError, Unreachable
from gpuprov.core.relay import Relay
from gpuprov.drivers import node_trees
from gpuprov.drivers.base import ExecResult, File
from gpuprov.fleet.controller import asked_of
from gpuprov.fleet.find_hosted import find_spanning
from gpuprov.lifecycle.find_controller import count_gpus
from gpuprov.machine.folders import FolderLook
from gpuprov.spec.shared_folder import ACCOUNT_UID
from tests.fakes.hosts_in_worlds import SINCE, HostsInWorlds, keep_keys_below
from tests.fakes.jobs_in_nodes import give_jobs
from tests.schemas import validate
from tests.unit.gpuwork.conftest import JOB, PANDAS, PARAMS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Recording
    from tests.fakes.engine import Command
    from tests.fakes.forked_programs import ForkedPrograms
    from tests.fakes.jobs_in_nodes import JobsInNodes

pytestmark = pytest.mark.slow

SPEC = """\
version: gpuprov/v1
hosts: [{name: hoff, internal_ip: 192.0.2.11}, {name: hinton, internal_ip: 192.0.2.12}]
nodes: {count: 2, role: ROLE}
gpus: {mode: simulated}
share: /data/lab
jobs: {time: 12h}
"""
RUNNING = {
    "id": "7", "name": "train", "state": "running", "tries": 1, "node": "c001", "gpus": [], "simulated": True,
    "exit_status": None, "reason": None, "submitted": "2026-11-22T16:40:12Z", "started": None, "ended": None,
    "log": "/shared/jobs/7/log",
}  # fmt: skip
AWAY = 7
INTERRUPTED = 130


class Lab:
    """Somebody at the controller, in the folder of a project."""

    def __init__(self, hosts: HostsInWorlds, capfd: pytest.CaptureFixture[str], folder: Path) -> None:
        self.hosts, self.folder, self.project = hosts, folder, folder / "Project"
        self.jobs: JobsInNodes
        self._captured = capfd

    def __call__(self, *argv: str, code: int = 0) -> str:
        self._captured.readouterr()
        found = main(list(argv), host=self.hosts.controller)
        self.said = self._captured.readouterr()
        assert found == code, f"{self.said.out}\n{self.said.err}"
        return self.said.out

    def document(self, *argv: str, code: int = 0) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self("--json", *argv, code=code))
        validate(document)
        return document

    def up(self, role: str = "slurm") -> None:
        (self.folder / "lab.yaml").write_text(SPEC.replace("ROLE", role))
        self("cluster", "up", "-f", str(self.folder / "lab.yaml"), "--no-verify")
        self.hosts.asked.clear()


@pytest.fixture
def bare(
    tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Lab:
    """Two hosts with one folder, and no cluster yet."""
    keep_keys_below(tmp_path / "data", monkeypatch)
    hosts = HostsInWorlds(tmp_path, recording, ("hoff", "hinton"))
    marks: dict[tuple[str, str], str] = {}
    for world in hosts.worlds.values():
        folders = world.host.folders
        folders.there["/data/lab"] = FolderLook(kind="folder", at="/data/lab", owner=ACCOUNT_UID)
        folders.marks = marks
    monkeypatch.setattr(session, "remembered_hosts", lambda: hosts.machines)
    monkeypatch.setattr(session, "way_to_hosts", lambda *_: hosts)
    (tmp_path / "Project").mkdir()
    monkeypatch.chdir(tmp_path / "Project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Lab(hosts, capfd, tmp_path)


@pytest.fixture
def lab(bare: Lab, monkeypatch: pytest.MonkeyPatch, programs: ForkedPrograms) -> Iterator[Lab]:
    """The same with a Slurm over both, that runs what it is given."""
    bare.up()
    (bare.folder / "jobs").mkdir()
    bare.jobs = give_jobs(bare.hosts.worlds["hoff"], bare.folder / "jobs", monkeypatch, programs)
    yield bare
    bare.jobs.finish()


def test_a_command_goes_with_its_project_to_the_host_of_the_controller(lab: Lab) -> None:
    (lab.project / "train.py").write_text("import sys; print('trained', sys.argv[1:])")
    assert lab("submit", "--gpus", "0", "--", "python3", "train.py", "--lr", "0.1") == "1\n"
    assert lab.hosts.asked == [
        *(("hoff", "part"), ("hinton", "part"), ("hoff", "cluster-nodes")),
        *(("hoff", "write_tree"), ("hoff", "node-run")),
    ], "the copy, and the program, after which the copy is removed"
    assert lab.jobs.held() == []
    lab.hosts.asked.clear()
    waited = lab.document("jobs", "wait", "1")
    assert [(job["id"], job["state"], job["exit_status"]) for job in waited["jobs"]] == [("1", "done", 0)]
    assert [verb for _, verb in lab.hosts.asked] == ["part", "part", "cluster-nodes", "node-run"]
    assert lab("jobs", "logs", "1", "--follow") == "trained ['--lr', '0.1']\n"
    order = lab.document("jobs", "show", "1")["submissions"][0]["order"]
    assert (order["command"][0], order["time_limit_s"]) == ("python3", 12 * 3600)
    assert [job["state"] for job in lab.document("jobs", "cancel", "1")["jobs"]] == ["done"]
    (row,) = lab.document("jobs")["jobs"]
    assert row["submitter"]["host"] == os.uname().nodename, "where it was typed"


def test_errors_and_exit_codes_are_those_of_one_host(lab: Lab) -> None:
    assert "there is no such job" in lab.document("jobs", "show", "7", code=2)["error"]["what"]
    lab("submit", "--gpus", "0", "--wait", "--", "false", code=1)
    lab.hosts.asked.clear()
    (lab.project / "out").symlink_to("/etc/passwd")
    assert lab("submit", "--", "true", code=2) == ""
    assert "out: is a link out of the project" in lab.said.err
    assert lab.hosts.asked == [], "what is wrong with a project is said before anybody is asked"
    assert len(lab.jobs.orders()) == 1


def test_a_copy_that_breaks_off_submits_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object) -> None:
        raise EngineError("hoff: no space left", evidence="No space left on device", fix="df -h")

    monkeypatch.setattr(lab.hosts, "write_tree", lose)
    assert "no space left" in lab.document("submit", "--", "true", code=4)["error"]["what"]
    assert lab.jobs.orders() == []


def test_a_lost_connection_says_how_to_see_whether_it_was_submitted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object, **__: object) -> None:
        raise Unreachable("the connection to hoff was lost", evidence="ssh printed nothing", fix="again")

    monkeypatch.setattr(type(lab.hosts.worlds["hoff"].driver), "run", lose)
    assert lab.document("submit", "--no-project", "--", "true", code=3)["error"]["fix"].startswith("see whether")


def test_the_host_of_the_controller_away_is_said(lab: Lab) -> None:
    lab.hosts.away = {"hinton"}
    assert lab.document("jobs")["jobs"] == [], "the other one is not needed"
    lab.hosts.away = {"hoff"}
    error = lab.document("jobs", code=3)["error"]
    assert error["what"] == "cluster lab takes no jobs now"
    assert f"c000 would be asked, on hoff\nhoff is unreachable since {SINCE}" in error["evidence"]


def test_a_grid_is_run_asked_for_and_pulled(lab: Lab) -> None:
    (lab.project / "src").mkdir()
    for name, text in {"src/params.py": PARAMS, "src/job.py": JOB, "pandas.py": PANDAS}.items():
        (lab.project / name).write_text(text)
    lab.jobs.give_python()
    lab.hosts.asked.clear()
    submitted = lab.document("grid", "run", "--minimal", "--gpus", "0", ".")
    assert submitted["id"] == "1"
    assert [verb for _, verb in lab.hosts.asked] == ["part", "part", "cluster-nodes", "write_tree", "node-run"]
    lab("jobs", "wait", "1")
    assert "done" in lab("grid", "status", ".")
    assert "0.8" in lab("grid", "results", ".")
    assert lab.document("grid", "pull", ".")["files"] > 0
    assert ("hoff", "read_tree") in lab.hosts.asked
    assert (lab.project / "runs/results.csv").exists()
    assert lab.document("grid", "cancel", ".")["jobs"] == []


def test_workers_take_jobs_too_and_show_their_queue(bare: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.up("worker")
    assert bare.document("jobs")["jobs"] == []
    assert ("hoff", "node-run") in bare.hosts.asked
    relays: list[list[str]] = []
    answer = bare.hosts.worlds["hoff"].engine.answer

    def read(command: Command) -> ExecResult:
        if command.argv[:1] == ("sh",) and command.argv[4] in command.node.files:
            content = base64.b64encode(command.node.files[command.argv[4]].content)
            return ExecResult(exit_code=0, stdout=content.decode(), stderr="")
        return answer(command)

    bare.hosts.worlds["hoff"].engine.answer = read

    def serve(_relay: Relay) -> None:
        raise KeyboardInterrupt

    begin = Relay.__init__

    def note(relay: Relay, port: int, argv: list[str], **more: Any) -> None:
        relays.append(argv)
        begin(relay, port, argv, **more)

    monkeypatch.setattr(Relay, "__init__", note)
    monkeypatch.setattr(Relay, "serve", serve)
    shown = bare.document("queue", "page", "--port", "45555", code=INTERRUPTED)
    assert shown["user"] == "gpuprov"
    assert len(shown["password"]) == 32
    ((ssh, address, _program, *command),) = relays
    assert (ssh, address) == ("ssh", "hoff.example")
    assert command[:5] == ["exec", "--engine", "lxd", "c000", "--"]


def run_on_c001(bare: Lab, *, looks: int) -> list[list[str]]:
    """Have a job run there until it was looked for so often, on either host; which nodes were held at each look."""
    held: list[list[str]] = []
    workers = [world.workers for world in bare.hosts.worlds.values()]

    def live() -> dict[str, Any]:
        held.append(workers[0].held)
        jobs = [RUNNING] if len(held) <= looks else []
        return {"schema": "gpuprov.jobs/v1", "version": 1, "jobs": jobs, "older": 0}

    for fake in workers:
        fake.folder, fake._list_live = bare.folder / "jobs", live  # type: ignore[method-assign]
    return held


@pytest.mark.parametrize("verb", [("stop", "c001"), ("rm", "c001"), ("cluster", "down", "lab", "--yes")])
def test_workers_of_another_host_take_no_runs_while_their_node_is_drained(bare: Lab, verb: tuple[str, ...]) -> None:
    bare.up("worker")
    held = run_on_c001(bare, looks=2)
    bare(*verb, "--drain=1m")
    assert len(held) >= 3
    assert all("c001" in names for names in held[:3]), held
    assert bare.hosts.worlds["hoff"].workers.held == [] or verb[0] == "cluster", "nobody is left to be held"


def test_a_job_on_workers_of_another_host_is_named_and_ended_by_force_alone(bare: Lab) -> None:
    bare.up("worker")
    run_on_c001(bare, looks=10**6)
    bare("rm", "c001", code=2)
    assert "job 7 of work (train) on c001" in bare.said.err
    assert bare.hosts.worlds["hoff"].workers.held == []
    bare("rm", "c001", "--force")
    assert "ending job 7 of work (train) on c001" in " ".join(bare.hosts._reporter.lines)


def test_work_is_divided_by_the_gpus_of_all_hosts(bare: Lab) -> None:
    bare.up("worker")
    seen = find_spanning("lab", bare.hosts.machines, bare.hosts)
    assert seen is not None
    driver = asked_of(seen, bare.hosts)
    assert [node.name for node in driver.list_nodes()] == ["c000"], "the other one is on the other host"
    assert count_gpus(driver, "lab") == 2


def test_the_status_names_the_folder(bare: Lab) -> None:
    bare.up()
    assert bare.document("cluster", "status")["shared_folder"] == "/data/lab"
    assert "shared folder: /data/lab of all hosts, /shared in the nodes" in bare("cluster", "status")


@pytest.mark.parametrize(("choice", "state"), [("leave", "waiting"), ("cancel", "cancelled")])
def test_ctrl_c_ends_the_wait_and_the_job_only_where_that_was_asked(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, choice: str, state: str
) -> None:
    lab.jobs.slurm.hold()
    work = HostsInWorlds.work

    def interrupt(hosts: HostsInWorlds, requests: Any) -> Any:
        (request,) = requests.values()
        if request.verb == "node-run" and "wait" in request.order.argv:
            raise KeyboardInterrupt
        return work(hosts, requests)

    monkeypatch.setattr(HostsInWorlds, "work", interrupt)
    lab("submit", "--no-project", "--wait", "--on-interrupt", choice, "--", "true", code=INTERRUPTED)
    assert [job["state"] for job in lab.document("jobs")["jobs"]] == [state]


@pytest.mark.parametrize("role", ["slurm", "worker"])
def test_on_a_host_without_the_node_that_takes_jobs_its_host_is_named(bare: Lab, role: str) -> None:
    bare.up(role)
    bare.hosts.controller.engines = bare.hosts.worlds["hinton"].host.engines
    error = bare.document("jobs", "--engine", "lxd", code=4)["error"]
    assert (error["evidence"], "is not on this host" in error["what"]) == ("c000 is on hoff", True)
    assert "type the same command on hoff" in error["fix"]


def test_files_are_copied_from_and_to_a_node_of_another_host(bare: Lab) -> None:
    bare.up()
    world = bare.hosts.worlds["hinton"]
    answer, codes = world.engine.answer, {kind: code for code, kind in node_trees._KINDS.items()}

    def look(command: Command) -> ExecResult:
        if command.argv[2:3] != (node_trees._LOOK,):
            return answer(command)
        kind = world.driver.look(command.node.name, command.argv[-1])
        return ExecResult(exit_code=codes[kind], stdout="", stderr="")

    world.engine.answer = look
    world.driver.push("c001", [File(path="/root/out", content=b"12")])
    assert bare("cp", "c001:out", ".") == "copied c001:/root/out to ./out: 1 file, 2 bytes\n"
    assert (bare.project / "out").read_bytes() == b"12"
    assert "copied out to c001:/tmp/out" in bare("cp", "out", "c001:/tmp")
    assert world.engine.nodes["c001"].files["/tmp/out"].content == b"12"
    bare("cp", "c009:out", ".", code=2)
    assert "there is no node c009" in bare.said.err


def test_only_the_host_that_takes_jobs_is_asked_for_nodes(bare: Lab) -> None:
    bare.up("worker")
    assert bare.document("jobs")["jobs"] == []
    assert bare.hosts.asked == [("hoff", "part"), ("hinton", "part"), ("hoff", "cluster-nodes"), ("hoff", "node-run")]


def test_nodes_that_a_host_tells_wrongly_are_refused(bare: Lab) -> None:
    bare.up("worker")
    bare.hosts.spoiled["hoff", "cluster-nodes"] = lambda told: {**told, "nodes": 5}
    assert bare.document("jobs", code=3)["error"]["what"] == "hoff gave an unexpected answer"
