"""Memory of workers' GPUs between people: who had each last is root's to say, and jobs cannot."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from celery.exceptions import Reject

from gpuwork import scrubber as program
from gpuwork.jobs.leftovers import is_of_run
from gpuwork.scrubber import SOCKET, Scrubber, listen, serve
from gpuwork.worker import scrubbing
from gpuwork.worker.runs import LeashedRuns
from gpuwork.worker.scrubbing import Scrubbing
from gpuwork.worker.tasks import make_run
from tests.unit.gpuwork.test_people_limits import Submitters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow  # programs and sockets

ONE, TWO = "GPU-0001", "GPU-0002"
ROOT = Path(__file__).parents[3]
ASK = """
import sys
from pathlib import Path
from gpuwork.jobs.leftovers import keep_tag
from gpuwork.worker.scrubbing import Scrubbing
if sys.argv[3] == "job":
    keep_tag()
print(Scrubbing(sys.argv[2], folder=Path(sys.argv[1])).prepare("ann", is_over=lambda: False))
"""


class Node:
    """A node with two GPUs; its program that overwrites memory tells which it was given, and fails on demand."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log, self.says = folder / "log", folder / "says"
        self.gpus, self.last, self.folder = folder / "gpus", folder / "last", folder / "run"
        self.gpus.write_text(f"{ONE} scrub\n{TWO} scrub\n")
        script = (
            f"echo $CUDA_VISIBLE_DEVICES ${{NUMBA_ENABLE_CUDASIM-real}} >>{self.log}; ! cat {self.says} 2>/dev/null"
        )
        monkeypatch.setattr(program, "PROGRAM", ("sh", "-c", script))
        (folder / "environment").write_text("HOME=/x\nNUMBA_ENABLE_CUDASIM=1\n")
        monkeypatch.setattr(program, "_ENVIRONMENT", folder / "environment")
        self.scrubber = self.again()

    def again(self) -> Scrubber:
        """The program as it starts again."""
        self.scrubber = Scrubber(gpus=self.gpus, last=self.last, folder=self.folder)
        return self.scrubber

    def ran(self) -> list[str]:
        """On which GPUs the program was run since the last question."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


@pytest.fixture
def served(node: Node) -> Iterator[Node]:
    """The same, and its socket answers."""
    server = listen(node.folder, os.getegid())

    def answer() -> None:
        while True:
            try:
                connection = server.accept()[0]
            except OSError:
                return
            serve(node.scrubber, connection)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield node
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def test_a_gpu_is_scrubbed_where_the_person_changes_and_only_there(node: Node) -> None:
    assert node.scrubber.prepare(ONE, "ann") == ""
    assert node.ran() == [f"{ONE} 1"], "nobody knows who had it"
    assert node.scrubber.prepare(ONE, "ann") == ""
    assert node.again().prepare(ONE, "ann") == "", "known when the program starts again"
    assert node.ran() == []
    assert node.scrubber.prepare(ONE, "bob") == ""
    assert node.scrubber.prepare(TWO, "bob") == ""
    assert node.ran() == [f"{ONE} 1", f"{TWO} 1"], "each GPU has its own"
    for _ in range(2):
        assert node.scrubber.prepare(ONE, "") == ""
    assert node.ran() == [f"{ONE} 1"] * 2, "whose job it is, is not known"
    assert node.scrubber.prepare(ONE, "bob") == ""
    assert node.ran() == [f"{ONE} 1"]


def test_who_had_a_gpu_is_root_s_alone_and_forgotten_where_that_is_gone(node: Node) -> None:
    node.scrubber.prepare(ONE, "ann")
    assert stat.S_IMODE(node.last.stat().st_mode) == 0o700
    assert (node.last / ONE).read_text() == "ann\n"
    (node.last / ONE).unlink()
    node.ran()
    node.scrubber.prepare(ONE, "ann")
    assert node.ran() == [f"{ONE} 1"]
    (node.last / "started").write_text("another boot\n")
    node.again().prepare(ONE, "ann")
    assert node.ran() == [f"{ONE} 1"], "a copy of another node's disk says nothing"


def test_a_gpu_that_is_not_scrubbed_is_given_to_nobody_until_it_is(node: Node) -> None:
    node.scrubber.prepare(ONE, "ann")
    node.says.write_text("first\nmemory of the GPU is not zero; $(reboot) `x` \x1b[31m\n")
    why = f"{ONE} was not scrubbed (status 1): memory of the GPU is not zero; reboot x 31m"
    assert node.scrubber.prepare(ONE, "bob") == why
    node.ran()
    assert node.again().prepare(ONE, "ann") == why, "not to whom it was before either: half of it may be overwritten"
    assert node.ran() == [], "a node full of jobs does not try all the time"
    node.scrubber.try_again()
    assert node.ran() == [f"{ONE} 1"], "the other one has no fault"
    assert Scrubbing(ONE, folder=node.folder).find_fault() == "the service gpuwork-scrub does not run"
    (node.folder / SOCKET).touch()
    assert Scrubbing(ONE, folder=node.folder).find_fault() == why
    assert Scrubbing(TWO, folder=node.folder).find_fault() == ""
    node.says.unlink()
    node.scrubber.try_again()
    assert Scrubbing(ONE, folder=node.folder).find_fault() == ""
    assert node.scrubber.prepare(ONE, "bob") == ""


def test_a_program_that_hangs_or_is_missing_is_a_fault(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_LIMIT_S", 0.1)
    monkeypatch.setattr(program, "PROGRAM", ("sleep", "60"))
    assert node.scrubber.prepare(ONE, "ann") == f"{ONE} was not scrubbed within 0.1 s"
    monkeypatch.setattr(program, "PROGRAM", ("/nowhere",))
    assert node.scrubber.prepare(TWO, "ann") == f"{TWO} was not scrubbed: No such file or directory"


@pytest.mark.parametrize("question", ["", ONE, f"{ONE} ann bob", f"{ONE} ../x", "0 ann", f"{ONE} ann\n", "x" * 5000])
def test_what_is_no_question_is_answered_so(node: Node, question: str) -> None:
    assert node.scrubber.answer(question) == "the question is none"
    assert node.ran() == []


def test_another_node_s_gpu_is_left_alone(node: Node) -> None:
    assert node.scrubber.answer("GPU-0003 ann") == "GPU-0003 is none of this node's"
    assert not (node.last / "GPU-0003").exists()


def test_workers_are_answered_and_processes_of_jobs_are_not(served: Node) -> None:
    assert stat.S_IMODE((served.folder / SOCKET).stat().st_mode) == 0o660

    def ask(who: str) -> str:
        argv = [sys.executable, "-c", ASK, str(served.folder), ONE, who]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    assert ask("worker") == ""
    assert served.ran() == [f"{ONE} 1"]
    assert ask("job") == "a process of a job may not ask"
    assert (served.last / ONE).read_text() == "ann\n"


def test_a_job_has_its_mark_whatever_it_does(bed: WorkerBed, queued: Jobs) -> None:
    assert not is_of_run(os.getpid())
    free = "import resource; resource.setrlimit(10, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))"
    script = f"env -i setsid {sys.executable} -c '{free}' && echo free; grep 'file locks' /proc/self/limits"
    queued.submit("su", "nobody", "-s", "/bin/sh", "-c", script) if os.geteuid() == 0 else queued.submit(
        "sh", "-c", script
    )
    assert LeashedRuns(bed.jobs, mark="w").make("1", 0) == 0
    said = queued("logs", "1")["text"]
    assert "free\n" not in said
    assert said.rstrip().splitlines()[-1].split()[3:5] != ["unlimited", "unlimited"]
    assert said.rstrip().splitlines()[-1].split()[-2] == str(1 << 62)


def test_a_run_has_the_gpu_once_it_is_scrubbed_and_goes_back_where_that_fails(
    bed: WorkerBed, queued: Jobs, served: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitter = Submitters(served.gpus, monkeypatch)
    runs = LeashedRuns(bed.jobs, mark="w", scrubbing=Scrubbing(ONE, folder=served.folder))
    submitter("ann")
    queued.submit("true", gpus=1)
    submitter("root", person="bob")
    queued.submit("true", gpus=1)
    queued.submit("true", gpus=0)
    assert make_run(bed.app(), runs, "1", 0) == "done"
    assert ((served.last / ONE).read_text(), len(served.ran())) == ("ann\n", 1)
    served.says.write_text("no\n")
    with pytest.raises(Reject) as caught:
        make_run(bed.app(), runs, "2", 0)
    assert caught.value.requeue
    assert caught.value.reason == f"{ONE} was not scrubbed (status 1): no"
    assert [(row["state"], row["tries"]) for row in queued.rows("2")] == [("waiting", 0)]
    assert make_run(bed.app(), runs, "3", 0) == "done", "a job without a GPU needs none"
    served.says.unlink()
    served.scrubber.try_again()
    assert make_run(bed.app(), runs, "2", 0) == "done"
    assert (served.last / ONE).read_text() == "bob\n"


def test_without_root_s_program_no_run_begins_and_the_worker_can_end(
    bed: WorkerBed, queued: Jobs, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubbing, "_PATIENCE_S", 0.3)
    asked = Scrubbing(ONE, folder=node.folder)
    why = "the service gpuwork-scrub does not answer: No such file or directory"
    assert asked.prepare("ann", is_over=lambda: False) == why
    queued.submit("true", gpus=1)
    runs = LeashedRuns(bed.jobs, mark="w", scrubbing=asked)
    runs.stop()
    assert runs.why_not("1") == "the worker ends"
    assert runs.why_not("no such") == "the worker ends", "whose it is, is not known"
