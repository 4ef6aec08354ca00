"""`gpuprov program` and `hardware`: the programs in the fake node are the real ones, and jobs really run."""

from __future__ import annotations

import json
import re
import socket
import xml.etree.ElementTree as ET
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.core.relay import Relay
from gpuprov.drivers.base import ExecResult
from gpuprov.roles.work.program_controller import ProgramController
from gpuprov.shapes.cluster_spec import JobsSpec
from tests.fakes.jobs_in_nodes import give_jobs
from tests.fakes.programs import CUDA, ROOT, write_program, write_table
from tests.schemas import validate
from tests.unit.spec.test_people import ANN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpuprov.shapes.program_runs import ProgramProgress
    from tests.fakes.engine import Command
    from tests.fakes.forked_programs import ForkedPrograms
    from tests.fakes.jobs_in_nodes import JobsInNodes
    from tests.unit.cli.conftest import Typed

KMEANS = ROOT / "examples/kmeans"
HASH = "ab" * 32


class Typing:
    """What is typed on a host whose cluster takes jobs."""

    def __init__(self, typed: Typed, jobs: JobsInNodes, captured: pytest.CaptureFixture[str]) -> None:
        self.world, self.jobs = typed.world, jobs
        self._captured = captured

    def __call__(self, *argv: str | Path, code: int = 0) -> str:
        self._captured.readouterr()
        found = main([*map(str, argv)], host=self.world.host)
        said = self._captured.readouterr()
        self.err = said.err
        assert found == code, f"{said.out}\n{said.err}"
        return said.out

    def document(self, *argv: str | Path, code: int = 0) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self(*argv, "--json", code=code))
        validate(document)
        return document

    def error(self, *argv: str | Path, code: int = 2) -> tuple[str, str, str]:
        error = self.document(*argv, code=code)["error"]
        return error["what"], error["evidence"], error["fix"]


@pytest.fixture
def types(
    typed: Typed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    equipped_programs: ForkedPrograms,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Typing]:
    typed.world.begin_with(2)
    (tmp_path / "jobs").mkdir()
    jobs = give_jobs(typed.world, tmp_path / "jobs", monkeypatch, equipped_programs)
    jobs.share()
    jobs.give_python()
    typed.world.engine.faults.clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield Typing(typed, jobs, capfd)
    jobs.finish()


@pytest.mark.slow
def test_check_tells_all_faults(types: Typing, tmp_path: Path) -> None:
    program = write_program(tmp_path / "p")
    document = types.document("program", "check", program)
    assert document["files"] == ["columns.cu", "columns.h", "columns.py", "config.yaml"]
    assert types("program", "check", program).strip() == document["hash"]
    (tmp_path / "t.csv").write_text("1,2\n3\n")
    broken = write_program(tmp_path / "q", cuda=CUDA.replace("result->rows +=", "result->rowz +="))
    what, evidence, fix = types.error("program", "check", broken, "--data", tmp_path / "t.csv", "--set", "no=1")
    assert what.startswith("3 faults")
    assert [
        word for word in ("columns.py", "columns.cu", "t.csv line 2") if word not in evidence.replace(":", " line ")
    ] == []
    assert "docs/programs.md" in fix


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("nowhere",), "'nowhere' is not the folder of a project"),
        ((".", "--data", "nowhere.csv"), "'nowhere.csv' is not a file with data"),
        ((".", "--data", "/dev/null"), "'/dev/null' is not a file with data"),
        ((".", "--set", "odd"), "--set 'odd' is not NAME=VALUE"),
        ((".", "--workers", "0"), "Invalid value for '--workers'"),
    ],
)
def test_what_is_typed_wrong_is_refused(argv: tuple[str, ...], said: str, types: Typing) -> None:
    assert said in types.error("program", "run", *argv)[0]


@pytest.mark.slow
def test_a_run_in_a_cluster_from_files_to_its_chart(types: Typing, tmp_path: Path) -> None:
    document = types.document(
        *("program", "run", KMEANS / "program", "--data", KMEANS / "points.csv", "--set", "clusters=3"),
        *("--workers", "2", "--svg", tmp_path / "k.svg"),
    )
    clusters = document["result"]["result"]["clusters"]
    assert sum(cluster["rows"] for cluster in clusters) == 300
    assert [worker["rows"] for worker in document["result"]["workers"]] == [150, 150]
    drawn = ET.parse(tmp_path / "k.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in drawn.iter(f"{space}text")]
    assert {"k-means SIMULATED", "cluster 0", "cluster 1", "cluster 2", "centroids"} <= {*words}
    assert len(list(drawn.iter(f"{space}use"))) >= 303, "a mark for each point and centroid"
    assert document["id"] == "1"
    assert types.jobs.held() == [], "what was copied is removed"
    (order,) = types.jobs.orders()
    assert (order["count"], order["gpus"], order["name"]) == (2, 1, "kmeans")
    (run,) = (types.jobs.folder / "programs/.runs").iterdir()
    assert [name for name in ("table.bin", "key.pem") if (run / name).exists()] == [], "what is large or secret is gone"
    listed = types.document("program", "list")["programs"]
    assert [(row["name"], row["built_for"]) for row in listed] == [("kmeans", ["standin"])]
    assert listed[0]["hash"][:12] in types("program", "list")
    types("jobs", "wait", "1")
    assert types.document("program", "rm", listed[0]["hash"])["programs"] == listed
    assert types("program", "list").strip() == "no programs"


@pytest.mark.slow
def test_a_run_of_a_person_is_theirs_and_its_result_is_printed(types: Typing) -> None:
    types.world.record(people=(ANN,), jobs=JobsSpec(submit_as=True))
    argv = ("program", "run", KMEANS / "program", "--data", KMEANS / "points.csv", "--set", "clusters=3")
    document = types.document(*argv, "--workers", "1", "--as", "ann")
    assert sum(cluster["rows"] for cluster in document["result"]["result"]["clusters"]) == 300
    assert set(types.jobs.persons) == {"ann"}
    assert [path.name for path in types.jobs.folder.iterdir()] == ["home"]
    assert types("program", "list").strip() == "no programs"
    (listed,) = types.document("program", "list", "--as", "ann")["programs"]
    types("jobs", "wait", "1", "--as", "ann")
    assert types.document("program", "rm", listed["hash"], "--as", "ann")["programs"] == [listed]


@pytest.mark.slow
def test_a_run_on_this_machine(types: Typing, tmp_path: Path) -> None:
    program = write_program(tmp_path / "p")
    sums = write_table(tmp_path / "t.csv", 5, 2, seed=1)
    document = types.document("program", "run", "--local", program, "--data", tmp_path / "t.csv", "--workers", "2")
    assert document["result"]["result"]["state"]["sums"] == sums
    assert (document["cluster"], document["id"]) == (None, None)
    argv = ("program", "run", "--local", program, "--data", tmp_path / "t.csv", "--svg", tmp_path / "no.svg")
    assert json.loads(types(*argv, code=1))["state"]["sums"] == sums
    assert "the program makes no chart of its result" in types.err
    assert not (tmp_path / "no.svg").exists()


@pytest.mark.slow
def test_a_crash_in_a_cluster_is_told(types: Typing, tmp_path: Path) -> None:
    crash = "    *(volatile int *)0 = 1;\n    result->rows +="
    program = write_program(tmp_path / "p", cuda=CUDA.replace("    result->rows +=", crash))
    write_table(tmp_path / "t.csv", 5, 2, seed=1)
    what, evidence, _ = types.error("program", "run", program, "--data", tmp_path / "t.csv", code=1)
    assert "crashed when it had to run an iteration over the rows 0 to " in what
    assert evidence == "SIGSEGV: Segmentation fault"


@pytest.mark.slow
def test_ctrl_c_cancels_the_jobs_and_removes_the_data(
    types: Typing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    types.jobs.slurm.hold()
    write_table(tmp_path / "t.csv", 5, 2, seed=1)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpuprov.roles.work.program_controller.ProgramController.look", interrupt)
    types("program", "run", write_program(tmp_path / "p"), "--data", tmp_path / "t.csv", code=130)
    assert "cancelling jobs 1" in types.err
    (run,) = (types.jobs.folder / "programs/.runs").iterdir()
    assert [name for name in ("table.bin", "key.pem") if (run / name).exists()] == []
    assert {row["state"] for row in types.document("jobs")["jobs"]} == {"cancelled"}


def left_of_the_run(types: Typing) -> list[str]:
    (run,) = (types.jobs.folder / "programs/.runs").iterdir()
    return [name for name in ("table.bin", "key.pem") if (run / name).exists()]


@pytest.mark.slow
def test_jobs_that_end_without_a_result_leave_no_data(
    types: Typing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    types.jobs.slurm.hold()
    write_table(tmp_path / "t.csv", 5, 2, seed=1)
    look = ProgramController.look

    def look_once_cancelled(controller: ProgramController, run: str) -> ProgramProgress:
        if left_of_the_run(types) and not cancelled:
            cancelled.append(main(("jobs", "cancel", "1"), host=types.world.host))
        return look(controller, run)

    cancelled: list[int] = []
    monkeypatch.setattr(ProgramController, "look", look_once_cancelled)
    monkeypatch.setattr("gpuprov.stories.programs.ROUNDS", 1)
    types("program", "run", write_program(tmp_path / "p"), "--data", tmp_path / "t.csv", code=4)
    assert "the jobs of the run ended without a result" in types.err
    assert left_of_the_run(types) == []


@pytest.mark.slow
def test_a_run_that_cannot_be_submitted_leaves_no_data(types: Typing, tmp_path: Path) -> None:
    types.jobs.slurm.said_by("sbatch", "sbatch: error: Batch job submission failed", code=1)
    write_table(tmp_path / "t.csv", 5, 2, seed=1)
    types("program", "run", write_program(tmp_path / "p"), "--data", tmp_path / "t.csv", code=4)
    assert "Batch job submission failed" in types.err
    assert left_of_the_run(types) == []


def answer(types: Typing, **told: object) -> None:
    """Have the node's program answer so."""

    def say(_command: Command) -> ExecResult:
        return ExecResult(exit_code=0, stdout=json.dumps({"version": 1, **told}), stderr="")

    types.jobs.say = say


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"hash": "../x", "name": "a", "version": "1", "registered": "2026-11-23T00:00:00Z", "built_for": []},
        {"hash": HASH, "name": "\x1b[31m", "version": "1", "registered": "2026-11-23T00:00:00Z", "built_for": []},
        {"hash": HASH, "name": "a", "version": "1", "registered": "now", "built_for": []},
        {"hash": HASH, "name": "a", "version": "1", "registered": "2026-11-23T00:00:00Z", "built_for": ["x"]},
    ],
)
def test_a_hostile_node_is_not_believed(row: Mapping[str, object], types: Typing) -> None:
    answer(types, schema="gpuprov.programs/v1", programs=[row])
    what, _, _ = types.error("program", "list", code=4)
    assert what == "the program for programs in c000 gave an unexpected answer (`list`)"


def test_a_page_without_a_run_is_refused(types: Typing) -> None:
    what, _, fix = types.error("program", "page")
    assert what == "no run of a program with a page is under way in cluster lab"
    assert fix == "gpuprov jobs"


def test_the_page_of_a_run_is_relayed(types: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(types, schema="gpuprov.program-pages/v1", page={"node": "c001", "port": 45123})

    def serve(_relay: Relay) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Relay, "serve", serve)
    monkeypatch.setattr("gpuprov.stories.queue_page._require_answer", lambda *_: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        free = taken.getsockname()[1]
    with suppress(SystemExit):
        document = types.document("program", "page", "--port", str(free), code=130)
    assert document["address"] == f"http://127.0.0.1:{free}/status"
    assert document["node"] == "c001"


@pytest.mark.slow
def test_hardware_of_the_host_and_the_nodes(types: Typing) -> None:
    document = types.document("hardware")
    assert document["hardware"]["threads"] >= 1
    assert [one["node"] for one in document["nodes"]] == ["c000", "c001"]
    assert all(one["hardware"]["cpu"] for one in document["nodes"])
    assert re.search(r"^c001 ", types("hardware"), re.MULTILINE)


def test_a_node_without_the_program_is_told(types: Typing) -> None:
    types.jobs.say = lambda _: ExecResult(exit_code=1, stdout="", stderr="python3: No module named gpuwork\n")
    document = types.document("hardware")
    assert {one["reason"] for one in document["nodes"]} == {"python3: No module named gpuwork"}
