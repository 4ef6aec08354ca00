"""Programs run on this machine: the stand-in for a GPU, Dask's scheduler, and worker processes."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.programs import CUDA, LAUNCH, PYTHON, ROOT, Programs, write_program, write_table
from tests.unit.gpuwork.conftest import lives, wait_until

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.slow  # several processes each

KMEANS = ROOT / "examples/kmeans"
SLOW = CUDA.replace("    result->rows +=", "    usleep(100000);\n    result->rows +=").replace(
    "#include <cuda_runtime.h>", "#include <cuda_runtime.h>\n#include <unistd.h>"
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(tmp_path_factory.mktemp("programs"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of other tests are not looked at."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("workers", "iterations"), [(3, 3), (1, 3), (2, 1), (5, 2)])
def test_the_sums_are_the_same_on_any_number_of_workers(
    workers: int, iterations: int, programs: Programs, tmp_path: Path
) -> None:
    program = write_program(tmp_path / "p")
    sums = write_table(tmp_path / "t.csv", 16, 3, seed=1)
    document = programs(
        *("run", program, "--data", tmp_path / "t.csv", "--workers", str(workers)),
        *("--set", f"max_iterations={iterations}"),
    )
    assert document["result"]["state"] == {"done": 1, "iteration": iterations, "columns": 3, "sums": sums}
    assert document["result"]["result"]["rows"] == 16
    assert [worker["number"] for worker in document["workers"]] == list(range(workers))
    assert sum(worker["rows"] for worker in document["workers"]) == 16
    assert (document["iterations"], document["moved"]) == (iterations, 0)


def test_tables_of_numpy_have_the_sums_of_numpy(programs: Programs, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    rows, columns = 1003, 31
    table = numpy.random.default_rng(7).normal(3, 10, size=(rows, columns))
    numpy.savetxt(tmp_path / "t.csv", table, delimiter=",", fmt="%.17g")
    document = programs("run", write_program(tmp_path / "p"), "--data", tmp_path / "t.csv", "--workers", "3")
    assert document["result"]["state"]["sums"] == pytest.approx(table.sum(axis=0).tolist(), rel=1e-12)
    assert document["rows"] == rows


def test_registered_and_built_once(programs: Programs, tmp_path: Path) -> None:
    program = write_program(tmp_path / "p", cuda=f"{CUDA}// once\n")
    write_table(tmp_path / "t.csv", 7, 2, seed=2)
    first = programs("run", program, "--data", tmp_path / "t.csv", "--workers", "2")
    (library,) = (programs.store / first["program"]["hash"] / "built").glob("*.so")
    built = library.stat().st_mtime_ns
    second = programs("run", program, "--data", tmp_path / "t.csv")
    assert first["program"] == second["program"]
    assert library.stat().st_mtime_ns == built
    rows = [row for row in programs("list")["programs"] if row["hash"] == first["program"]["hash"]]
    assert [(row["name"], row["built_for"]) for row in rows] == [("columns", ["standin"])]
    assert programs("rm", first["program"]["hash"][:8])["program"]["hash"] == first["program"]["hash"]
    assert "names no program" in programs("rm", first["program"]["hash"], code=2)["error"]["what"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [1, 2])
def test_fewer_rows_than_workers(rows: int, programs: Programs, tmp_path: Path) -> None:
    program = write_program(tmp_path / "p")
    sums = write_table(tmp_path / "t.csv", rows, 2, seed=3)
    document = programs("run", program, "--data", tmp_path / "t.csv", "--workers", "3")
    assert document["result"]["state"]["sums"] == sums
    assert [worker["rows"] for worker in document["workers"]] == [1] * rows
    assert document["simulated"] is any(worker["gpu"] is None for worker in document["workers"])


def test_what_is_wrong_with_the_data_is_told_before_anything_runs(programs: Programs, tmp_path: Path) -> None:
    program = write_program(tmp_path / "p")
    (tmp_path / "t.csv").write_text("1,2\n3,x\n4\n")
    error = programs("run", program, "--data", tmp_path / "t.csv", code=2)["error"]
    assert error["what"] == "2 faults in the data; nothing was written"
    assert [line.partition(" (")[0] for line in error["evidence"].splitlines()] == [
        "t.csv:2: column 2 is 'x'",
        "t.csv:3: has 1 values",
    ]
    assert programs("run", program, code=2)["error"]["what"] == "there is no data"
    assert "cannot be read" in programs("run", program, "--data", tmp_path / "no.csv", code=2)["error"]["what"]
    found = programs("check", program, "--data", tmp_path / "t.csv", code=2)["faults"]
    assert [fault["line"] for fault in found] == [2, 3]


def test_a_kernel_on_a_machine_without_a_gpu_is_refused_by_name(programs: Programs, tmp_path: Path) -> None:
    program = write_program(tmp_path / "p", cuda=CUDA + LAUNCH)
    write_table(tmp_path / "t.csv", 4, 2, seed=3)
    error = programs("run", program, "--data", tmp_path / "t.csv", code=1)["error"]
    assert error["what"] == "program columns cannot be built for standin"
    assert error["evidence"].startswith(
        "columns.cu:18: add_rows: this kernel is launched, but there is no GPU here (allowed: "
    )


def test_what_the_compiler_says_is_told_once(programs: Programs, tmp_path: Path) -> None:
    program = write_program(tmp_path / "p", cuda=CUDA.replace("result->rows +=", "result->rowz +="))
    write_table(tmp_path / "t.csv", 4, 2, seed=3)
    error = programs("run", program, "--data", tmp_path / "t.csv", "--workers", "2", code=1)["error"]
    assert len(error["evidence"].splitlines()) == 1
    assert error["evidence"].startswith("columns.cu:8: ")


def test_a_crash_in_one_slice_is_told_with_its_rows(programs: Programs, tmp_path: Path) -> None:
    crash = "    if (data->values[0] > 5) *(volatile int *)0 = 1;\n    result->rows +="
    program = write_program(tmp_path / "p", cuda=CUDA.replace("    result->rows +=", crash))
    (tmp_path / "t.csv").write_text("".join(f"{row}\n" for row in range(9)))
    began = time.monotonic()
    error = programs("run", program, "--data", tmp_path / "t.csv", "--workers", "3", code=1)["error"]
    assert error["what"].startswith("program columns crashed when it had to run an iteration over the rows 6 to 8 on ")
    assert error["evidence"] == "SIGSEGV: Segmentation fault"
    assert time.monotonic() < began + 60
    assert Path(error["fix"].split()[-1]).exists()


def test_what_python_raises_is_told_with_its_line(programs: Programs, tmp_path: Path) -> None:
    python = PYTHON.replace("    one.rows += other.rows\n", "    one.rows += other.lines\n")
    program = write_program(tmp_path / "p", python=python)
    write_table(tmp_path / "t.csv", 4, 2, seed=3)
    error = programs("run", program, "--data", tmp_path / "t.csv", "--workers", "2", code=1)["error"]
    assert "failed to merge" in error["what"]
    assert "has no attribute 'lines'" in error["evidence"]
    assert f"line {python.splitlines().index('    one.rows += other.lines') + 1}" in error["evidence"]


def test_what_cuda_returns_is_told_in_words(programs: Programs, tmp_path: Path) -> None:
    program = write_program(tmp_path / "p", cuda=CUDA.replace("    return 0;", "    return 2;"))
    write_table(tmp_path / "t.csv", 4, 2, seed=3)
    error = programs("run", program, "--data", tmp_path / "t.csv", code=1)["error"]
    assert error["evidence"] == "run_iteration failed with 2: out of memory"


class Running:
    """A run that takes seconds, and its processes."""

    def __init__(self, programs: Programs, folder: Path, rows: int = 16) -> None:
        self.programs = programs
        self.sums = write_table(folder / "t.csv", rows, 2, seed=5)
        program = write_program(folder / "p", cuda=SLOW)
        self.process: subprocess.Popen[str] = programs.start(
            *("run", program, "--data", folder / "t.csv", "--workers", "3", "--set", "max_iterations=60")
        )
        self._temporary = folder / "temporary"
        wait_until(lambda: len(self.find("gpuwork.programs.inside")) >= 4, "no program", limit_s=120)
        time.sleep(1)

    @property
    def folder(self) -> Path:
        (folder,) = self._temporary.glob("gpuwork-run-*")
        return folder

    def find(self, *words: str) -> list[int]:
        """Processes of this run whose command has these words."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                argv = path.read_bytes().decode(errors="replace").split("\0")
                environment = (path.parent / "environ").read_bytes()
                own = f"TMPDIR={self._temporary}".encode() in environment
                if own and all(word in argv or any("." in word and word in one for one in argv) for word in words):
                    found.append(int(path.parent.name))
        return found

    def finish(self) -> dict[str, Any]:
        return self.programs.finish(self.process)


def test_the_slice_of_a_killed_worker_goes_elsewhere(programs: Programs, tmp_path: Path) -> None:
    running = Running(programs, tmp_path)
    (worker,) = running.find("gpuwork.programs.part", "worker", "--number", "1")
    os.kill(worker, signal.SIGKILL)
    document = running.finish()
    assert document["result"]["state"]["sums"] == running.sums
    assert (document["moved"], document["iterations"]) == (1, 60)
    assert document["workers"][1]["rows"] == 0
    assert sum(worker["rows"] for worker in document["workers"]) == 16
    assert document["seconds"] < 60 * 0.2 + 10, "its slice of one round, and 10 s"
    assert running.find("gpuwork.programs") == []


def test_a_worker_that_hangs_is_replaced(programs: Programs, tmp_path: Path) -> None:
    running = Running(programs, tmp_path)
    (worker,) = running.find("gpuwork.programs.part", "worker", "--number", "1")
    os.kill(worker, signal.SIGSTOP)
    try:
        document = running.finish()
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    assert document["result"]["state"]["sums"] == running.sums
    assert document["iterations"] == 60


def test_a_slow_worker_gets_fewer_rows(programs: Programs, tmp_path: Path) -> None:
    """The first process that works is five times as slow as the other one."""
    begun = f'static int slow = open("{tmp_path}/slow", O_CREAT | O_EXCL, 0600) >= 0 ? 5 : 1;'
    wait = f"    {begun}\n    usleep(1000 * slow * data->rows);\n    result->rows +="
    cuda = CUDA.replace("    result->rows +=", wait).replace(
        "#include <cuda_runtime.h>", "#include <cuda_runtime.h>\n#include <fcntl.h>\n#include <unistd.h>"
    )
    sums = write_table(tmp_path / "t.csv", 60, 2, seed=6)
    document = programs(
        *("run", write_program(tmp_path / "p", cuda=cuda), "--data", tmp_path / "t.csv", "--workers", "2"),
        *("--set", "max_iterations=40"),
    )
    assert document["result"]["state"]["sums"] == sums
    few, many = sorted(worker["rows"] for worker in document["workers"])
    assert few + many == 60
    assert few * 2 < many, "at first both had 30"


def test_a_program_that_is_killed_begins_again(programs: Programs, tmp_path: Path) -> None:
    running = Running(programs, tmp_path)
    (worker,) = running.find("gpuwork.programs.part", "worker", "--number", "2")
    (inside,) = [
        pid
        for pid in running.find("gpuwork.programs.inside")
        if f"\t{worker}\n" in Path(f"/proc/{pid}/status").read_text()
    ]
    os.kill(inside, signal.SIGKILL)
    document = running.finish()
    assert document["result"]["state"]["sums"] == running.sums
    assert document["moved"] == 0


def test_nothing_is_left_when_the_leader_is_killed(programs: Programs, tmp_path: Path) -> None:
    running = Running(programs, tmp_path)
    pids = running.find("gpuwork.programs")
    assert len(pids) == 1 + 1 + 3 + 4
    running.process.kill()
    running.process.communicate()
    wait_until(lambda: not any(map(lives, pids)), "processes go on")


def test_ctrl_c_ends_all(programs: Programs, tmp_path: Path) -> None:
    running = Running(programs, tmp_path)
    running.process.send_signal(signal.SIGINT)
    assert programs.finish(running.process, code=130) == {}
    assert running.find("gpuwork.programs") == []
    assert [*(tmp_path / "temporary").glob("gpuwork-run-*")] == []


def test_who_lacks_the_certificate_of_the_run_is_refused(programs: Programs, tmp_path: Path) -> None:
    from distributed import Client

    from gpuwork.programs.certificate import make_certificate, read_security
    from gpuwork.programs.meet import settle_dask

    settle_dask()
    running = Running(programs, tmp_path)
    address = json.loads((running.folder / "scheduler.json").read_text())["address"]
    assert (running.folder / "key.pem").stat().st_mode & 0o077 == 0
    (tmp_path / "other").mkdir()
    make_certificate(tmp_path / "other")
    for where, security in ((address, read_security(tmp_path / "other")), (address.replace("tls", "tcp"), None)):
        with pytest.raises(OSError, match=r"Timed out|closed|handshake|TLS|certificate"):
            Client(where, security=security, timeout=3)
    with Client(address, security=read_security(running.folder), timeout=10) as client:
        assert len(client.scheduler_info(n_workers=-1)["workers"]) == 3
    assert running.finish()["result"]["state"]["sums"] == running.sums


def test_dask_s_page_shows_the_workers_to_this_machine_alone(programs: Programs, tmp_path: Path) -> None:
    pytest.importorskip("bokeh")
    running = Running(programs, tmp_path)
    port = json.loads((running.folder / "scheduler.json").read_text())["page"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=30) as page:
        assert "Dask" in page.read().decode()
    listening = Path("/proc/net/tcp").read_text().split()
    assert f"0100007F:{port:04X}" in listening
    running.process.send_signal(signal.SIGINT)
    programs.finish(running.process, code=130)


def test_kmeans_keeps_its_invariants(programs: Programs) -> None:
    with (KMEANS / "points.csv").open() as file:
        rows = [[float(row["x"]), float(row["y"])] for row in csv.DictReader(file)]
    found = []
    for workers in (1, 3):
        document = programs(
            *("run", KMEANS / "program", "--data", KMEANS / "points.csv", "--workers", str(workers)),
            *("--set", "clusters=3"),
        )
        clusters = document["result"]["clusters"]
        assert sum(cluster["rows"] for cluster in clusters) == len(rows)
        for column in range(2):
            weighted = sum(cluster["rows"] * cluster["centroid"][column] for cluster in clusters)
            assert weighted == pytest.approx(sum(row[column] for row in rows))
        found.append([value for cluster in clusters for value in cluster["centroid"]])
        assert re.fullmatch("[0-9a-f]{64}", document["program"]["hash"])
        assert sum(len(group["points"]) for group in document["chart"]["groups"]) == len(rows) + 3
    assert found[0] == pytest.approx(found[1])
