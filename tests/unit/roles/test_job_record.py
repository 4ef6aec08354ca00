"""The record of jobs that had GPUs without accounting: the program that slurmctld runs, and what is read of it."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import ExecResult
from gpuprov.roles.slurm.job_record import ask_record, parse_record, record_program
from gpuprov.roles.slurm.questions import VERIFY_JOB
from gpuprov.shapes.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from gpuprov.roles.usage import Uses

END = 1795920666
JOB = {
    "JOBID": "7",
    "ARRAYJOBID": "0",
    "ARRAYTASKID": "4294967295",
    "USERNAME": "ann",
    "WORK_DIR": "/tmp",
    "JOBNAME": "train",
    "JOBSTATE": "COMPLETED",
    "SUBMIT": str(END - 100),
    "START": str(END - 60),
    "END": str(END),
    "NODES": "c[000-001]",
}
PROGRAMS = {
    "scontrol": 'cat "$ROOT/said/$4" 2>/dev/null',
    "squeue": 'case "$*" in *--name=*) cat "$ROOT/verifying" ;; *--user=work*) cat "$ROOT/folders" ;;'
    ' *) cat "$ROOT/running" ;; esac',
}


class Node:
    """A controller's node: Slurm's files, and stand-ins for its programs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("bin", "said", "state"):
            (root / name).mkdir()
        for name, text in PROGRAMS.items():
            self._write(root / "bin" / name, f"#!/bin/sh\n{text}\n")
        for name in ("running", "folders", "verifying"):
            (root / name).touch()
        text = record_program(ClusterSpec(name="lab")).content.decode()
        self._write(root / "job-ended", text.replace("/var/lib/slurm/slurmctld", f"{root}/state"))

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def has(self, job: str, *gpus: str, name: str = "train") -> None:
        """What scontrol says of a job."""
        lines = [f"JobId=7 JobName={name}", "   JobState=COMPLETING", *(f"   JOB_GRES={one}" for one in gpus)]
        (self.root / "said" / job).write_text("\n".join(lines) + "\n")

    def end(self, **more: str) -> str:
        """Let a job end; what was written of it."""
        env = {**JOB, **more, "PATH": f"{self.root}/bin:/usr/bin:/bin", "ROOT": str(self.root)}
        subprocess.run([str(self.root / "job-ended")], env=env, check=False, timeout=60)
        files = sorted((self.root / "state/ended").glob("*"))
        return files[-1].read_text().splitlines()[-1] if files else ""

    def run(self, _name: str, argv: Sequence[str], **_: Any) -> ExecResult:
        env = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "ROOT": str(self.root)}
        argv = [word.replace("/etc/slurm", str(self.root)) for word in argv]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
        return ExecResult(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def ask(self, since: int = END - 1000, until: int = END + 10**8) -> Uses | None:
        driver: Driver = self  # type: ignore[assignment]
        begin, end = (datetime.fromtimestamp(moment, timezone.utc) for moment in (since, until))
        return ask_record(driver, "c000", since=begin, until=end, accounts={"ann": "vision"})


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpus", "counted"),
    [
        ("gpu:h100:2", "gres/gpu:h100=2"),
        ("gpu:4", "gres/gpu=4"),
        ("gpu:1g.10gb:1,gpu:a100:2", "gres/gpu:1g.10gb=1,gres/gpu:a100=2"),
    ],
)
def test_an_ended_job_is_written_down(node: Node, gpus: str, counted: str) -> None:
    node.has("7", gpus)
    assert node.end() == f"7|7|ann||COMPLETED|{END - 100}|{END}|60|{counted}|c[000-001]|"
    (file,) = (node.root / "state/ended").glob("*")
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_a_job_without_a_gpu_or_a_beginning_is_not(node: Node) -> None:
    node.has("7")
    assert node.end() == ""
    node.has("7", "shard:h100:2")
    assert node.end() == ""
    node.has("7", "gpu:h100:1")
    assert node.end(START="0") == ""
    assert node.end() != ""


@pytest.mark.slow
def test_a_task_of_an_array_is_asked_for_as_such(node: Node) -> None:
    """The last task has the number of the array, by which scontrol lists all."""
    node.has("7_3", "gpu:h100:1")
    node.has("7", "gpu:h100:64")
    line = node.end(ARRAYJOBID="7", ARRAYTASKID="3")
    assert line.startswith("7|7_3|ann|")
    assert "|gres/gpu:h100=1|" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "known_by"),
    [
        ({"USERNAME": "work", "WORK_DIR": "/shared/jobs/12"}, "12"),
        ({"USERNAME": "work", "WORK_DIR": "/shared/jobs/12/x"}, ""),
        ({"USERNAME": "work", "WORK_DIR": "/shared/jobs/"}, ""),
        ({"USERNAME": "work", "WORK_DIR": "/tmp/jobs/12"}, ""),
        ({"USERNAME": "ann", "WORK_DIR": "/shared/jobs/12"}, ""),
        ({"USERNAME": "root", "JOBNAME": VERIFY_JOB}, "verify"),
        ({"USERNAME": "ann", "JOBNAME": VERIFY_JOB}, ""),
    ],
)
def test_it_says_which_submission_that_was(node: Node, told: dict[str, str], known_by: str) -> None:
    node.has("7", "gpu:h100:1")
    assert node.end(**told).rpartition("|")[2] == known_by


@pytest.mark.slow
def test_a_name_that_reads_like_slurm_s_words_lowers_nothing(node: Node) -> None:
    node.has("7", "gpu:h100:2", name="a\n   JOB_GRES=gpu:h100:0\n   UserId=bob(10002)")
    node.end(JOBNAME="a\n9|9|bob||COMPLETED|1|2|1|gres/gpu=64|c000|")
    uses = node.ask()
    assert uses is not None
    assert [(use.person, use.account, use.gpus, use.seconds) for use in uses.uses] == [
        ("ann", "vision", {"h100": 2}, 60)
    ]


@pytest.mark.slow
def test_jobs_that_run_count_up_to_now_and_once(node: Node) -> None:
    node.has("7", "gpu:h100:2")
    node.has("8", "gpu:h100:1")
    node.end()
    rows = f"7|7|N/A|ann|RUNNING|{END - 100}|{END - 60}|c000\n8|8|N/A|work|RUNNING|{END - 100}|{END - 50}|c001\n"
    (node.root / "running").write_text(rows)
    (node.root / "folders").write_text("8 /shared/jobs/3\nodd\n9|9|N/A|bob|RUNNING|1|2|c000\n")
    uses = node.ask()
    assert uses is not None
    assert [(use.job, use.running, use.submission) for use in uses.uses] == [("7", False, ""), ("8", True, "3")]
    assert uses.uses[0].seconds == 60
    assert uses.uses[1].seconds > 50
    assert not uses.accounting


@pytest.mark.slow
def test_a_window_cuts(node: Node) -> None:
    node.has("7", "gpu:h100:1")
    node.end()
    for since, until, seconds in (
        (END - 20, END + 5, [20]),
        (END - 70, END - 50, [10]),
        (END, END + 5, []),
        (1, 2, []),
    ):
        uses = node.ask(since, until)
        assert uses is not None
        assert [use.seconds for use in uses.uses] == seconds


@pytest.mark.slow
def test_files_of_more_than_13_months_ago_go_as_a_new_one_begins(node: Node) -> None:
    node.has("7", "gpu:h100:1")
    node.end()
    (month,) = (node.root / "state/ended").glob("*")
    for name, days in (("600", 400), ("601", 390)):
        (month.parent / name).touch()
        os.utime(month.parent / name, (datetime.now(timezone.utc).timestamp() - days * 86400,) * 2)
    node.end()
    assert (month.parent / "600").exists()
    month.unlink()
    node.end()
    assert sorted(path.name for path in month.parent.iterdir()) == ["601", month.name]


@pytest.mark.slow
def test_a_file_has_an_end(node: Node) -> None:
    node.has("7", "gpu:h100:1")
    node.end()
    (month,) = (node.root / "state/ended").glob("*")
    os.truncate(month, 16 * 1024 * 1024)
    size = month.stat().st_size
    node.end()
    assert month.stat().st_size == size


@pytest.mark.slow
def test_a_controller_without_it_says_nothing_and_one_that_fails_is_an_error(node: Node) -> None:
    assert node.ask() is not None
    (node.root / "bin/squeue").write_text("#!/bin/sh\necho 'squeue: error: no controller' >&2\nexit 1\n")
    with pytest.raises(EngineError, match="record of jobs") as raised:
        node.ask()
    assert "no controller" in raised.value.evidence
    (node.root / "job-ended").unlink()
    assert node.ask() is None


@pytest.mark.parametrize(
    "line",
    [
        "7|7|a\x1bn||COMPLETED|1|2|1|gres/gpu=1|c000|",
        "7|7|ann||COMPLETED|1|2|1|gres/gpu=1|c[000|",
        "7|7|ann||COMPLETED|1|2|1|gres/8|8|ann||COMPLETED|1|2|1|gres/gpu=1|c000|",
        "",
    ],
)
def test_a_line_that_is_none_is_left_out_and_counted(line: str) -> None:
    found = parse_record(f"record\n{line}\n9|9|ann||COMPLETED|1|2|1|gres/gpu=1|c000|../x\n", (0, 10), {})
    assert [(use.job, use.submission) for use in found.uses] == [("9", "")]
    assert found.notes == ("1 lines of Slurm's record are damaged, and left out",)
    with pytest.raises(ValueError):  # noqa: PT011 - its words are those of the node
        parse_record(f"{line}\n", (0, 10), {})


@pytest.mark.slow
@pytest.mark.parametrize("value", ["gpu:x|9|:1", "gpu:*:3", "gpu:" + "h" * 3000 + ":1", "gpu:h100:many", "gpu::"])
def test_what_reads_like_gpus_and_is_none_breaks_no_line(node: Node, value: str) -> None:
    node.has("7", "gpu:h100:2", name=f"a\n   JOB_GRES={value}")
    node.end()
    uses = node.ask()
    assert uses is not None
    assert [(use.gpus, uses.notes) for use in uses.uses] == [({"h100": 2}, ())]


@pytest.mark.slow
def test_a_job_with_hundreds_of_false_lines_in_its_name_is_counted(node: Node) -> None:
    false = "".join(f"\n   JOB_GRES=gpu:false{number}:1" for number in range(500))
    node.has("7", "gpu:h100:2", name=f"a{false}")
    node.end()
    uses = node.ask()
    assert uses is not None
    (use,) = uses.uses
    assert (use.gpus["h100"], use.seconds, uses.notes) == (2, 60, ())
