"""`python3 -m gpuwork.jobs` with stand-ins for Slurm's commands, which run what is handed in."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.shapes.base import encode
from gpuprov.shapes.job_order import JobOrder
from gpuprov.shapes.job_run import JobRun
from gpuwork import shared_folder
from gpuwork.errors import SlurmError
from gpuwork.jobs import arguments, slurm_refusal, waiting
from gpuwork.jobs.cli import main
from gpuwork.jobs.store import write_run_record
from gpuwork.shared_folder import only_one
from tests.fakes.slurm_program import descendants
from tests.schemas import validate
from tests.unit.gpuwork.conftest import lives, render_order, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.slurm_commands import SlurmCommands
    from tests.unit.gpuwork.conftest import Jobs

ROOT = Path(__file__).parents[3]
WAY_OUT = "keep data outside the project and give its path as a parameter, or name it in .gitignore"
# Is found by others as soon as it runs, and goes on until it is told to end, at its first try alone.
LONG = "test -e pids && exit 0; echo $$ >part; mv part pids; sleep 600"


def begun(jobs: Jobs, job: str = "1", run: int = 0) -> str:
    """The process of a command of `LONG`."""
    path = jobs.folder / job / f"runs/{run}" / "work/pids"
    wait_until(path.exists, "the command has not begun")
    return path.read_text().strip()


def test_what_is_submitted_is_run_by_slurm(jobs: Jobs, slurm: SlurmCommands) -> None:
    assert jobs.submit("echo", "hello", name="greeting")["jobs"] == ["1"]
    (row,) = jobs.wait("1")
    assert {key: row[key] for key in ("id", "name", "state", "tries", "node", "gpus", "exit_status", "reason")} == {
        "id": "1",
        "name": "greeting",
        "state": "done",
        "tries": 1,
        "node": os.uname().nodename,
        "gpus": [],
        "exit_status": 0,
        "reason": None,
    }
    assert row["submitted"] <= row["started"] <= row["ended"]
    assert row["log"] == f"{jobs.folder}/1/runs/0/log.txt"
    assert jobs("logs", "1") == {
        "schema": "gpuprov.job-log/v1",
        "version": 1,
        "id": "1",
        "state": "done",
        "text": "hello\n",
        "next": 6,
        "size": 6,
        "whole": True,
    }
    (shown,) = jobs("show", "1")["submissions"]
    assert (shown["id"], shown["code"], shown["slurm"]) == ("1", None, [101])
    for name in ("order.json", "submitted.json", "runs/0/done.json"):
        validate(json.loads((jobs.folder / "1" / name).read_text()))
    assert len(slurm.typed("sbatch")) == 1


@pytest.mark.slow
def test_each_of_several_runs_has_an_id_of_its_own(jobs: Jobs) -> None:
    jobs.submit("sh", "-c", "test {n} -ne 1", count=3, at_most=2)
    rows = jobs.wait("1", code=1)
    assert [(row["id"], row["state"]) for row in rows] == [("1.0", "done"), ("1.1", "failed"), ("1.2", "done")]
    assert [row["id"] for row in jobs.rows("1.2", "1.0")] == ["1.2", "1.0"]
    assert jobs.wait("1.2", "1.0")
    assert jobs("logs", "1", code=2)["error"]["evidence"] == "1 has runs 1.0 to 1.2"


def test_a_function_of_a_project_is_run(jobs: Jobs, make: Callable[..., Path]) -> None:
    project = make({"app/tasks.py": "def train(units):\n    print('units', units)\n"})
    jobs.submit(project=str(project), function="app.tasks:train", arguments={"units": 128})
    assert jobs.wait("1")[0]["name"] == "app.tasks:train"
    assert jobs("logs", "1")["text"] == "units 128\n"


def test_a_project_is_frozen_although_a_job_put_something_in_its_way(jobs: Jobs, make: Callable[..., Path]) -> None:
    project = make({"task.py": "def train():\n    print('trained')\n"})
    jobs.folder.mkdir(exist_ok=True)
    os.mkfifo(jobs.folder / ".code")
    jobs.submit(project=str(project), function="task:train")
    assert jobs.wait("1")[0]["state"] == "done"


@pytest.mark.slow
def test_two_and_a_half_thousand_runs_are_three_commands(held: Jobs, slurm: SlurmCommands) -> None:
    answer = held.submit("true", count=2500, at_most=8, gpus=1)
    assert (len(answer["jobs"]), answer["jobs"][-1]) == (2500, "1.2499")
    calls = slurm.typed("sbatch")
    words = [[word for word in call if word.startswith(("--array", "--dep"))] + call[-1:] for call in calls]
    assert words == [
        ["--array=0-999%8", "0"],
        ["--array=0-999%8", "--dependency=afterany:101", "1000"],
        ["--array=0-499%8", "--dependency=afterany:102", "2000"],
    ]
    rows = held.rows()
    assert len(rows) == 2500
    assert {row["state"] for row in rows} == {"waiting"}
    assert {row["reason"] for row in rows} == {"Resources"}
    assert len(slurm.typed("squeue")) == 1
    assert {row["state"] for row in held("cancel", "1")["jobs"]} == {"cancelled"}
    assert slurm.typed("scancel") == [["101", "102", "103"]]
    assert slurm.listed() == {}


@pytest.mark.slow
def test_a_run_beyond_the_first_chunk_has_its_number(
    jobs: Jobs, slurm: SlurmCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwork.jobs.slurm.CHUNK", 2)
    jobs.submit("echo", "{n}", count=5, at_most=1)
    jobs.wait("1")
    assert [jobs("logs", f"1.{number}")["text"] for number in range(5)] == [f"{number}\n" for number in range(5)]
    assert len(slurm.typed("sbatch")) == 3


def program_of(slurm: SlurmCommands, task: str) -> int:
    """What the script that Slurm started for a task started."""
    below = descendants(int((slurm.tasks / task).read_text().split()[1]))
    return next(pid for pid in below if b"gpuwork.jobs.one" in Path(f"/proc/{pid}/cmdline").read_bytes())


@pytest.mark.slow
def test_a_run_whose_program_is_killed_runs_again_and_ends_once(jobs: Jobs, slurm: SlurmCommands) -> None:
    jobs.submit("sh", "-c", LONG)
    command = begun(jobs)
    os.kill(program_of(slurm, "101_0"), signal.SIGKILL)
    (row,) = jobs.wait("1")
    assert (row["state"], row["tries"]) == ("done", 2)
    assert not lives(command), "the first try is over before the second begins"


@pytest.mark.slow
def test_a_run_whose_node_is_gone_is_requeued_and_ends_once(jobs: Jobs, slurm: SlurmCommands) -> None:
    jobs.submit("sh", "-c", LONG)
    begun(jobs)
    assert [row["state"] for row in jobs.rows("1")] == ["running"]
    slurm.fail_node("101_0")
    (row,) = jobs.wait("1")
    assert (row["state"], row["tries"]) == ("done", 2)


@pytest.mark.slow
def test_a_run_that_always_crashes_its_program_ends_as_failed_with_its_log(jobs: Jobs) -> None:
    jobs.submit("sh", "-c", "echo here I am; kill -KILL $PPID; sleep 600")
    (row,) = jobs.wait("1", code=1)
    assert (row["state"], row["tries"]) == ("failed", 4)
    assert row["reason"] == "4 tries were killed; of the last one: its node was lost, or its program was killed"
    assert jobs("logs", "1")["text"].count("here I am\n") == 4


@pytest.mark.slow
def test_cancel_returns_when_all_has_ended(jobs: Jobs) -> None:
    jobs.submit("sh", "-c", LONG, count=3, at_most=2)
    commands = [begun(jobs, run=number) for number in (0, 1)]
    assert [row["state"] for row in jobs("cancel", "1.1")["jobs"]] == ["cancelled"]
    assert [lives(command) for command in commands] == [True, False]
    rows = jobs("cancel", "1")["jobs"]
    assert [row["state"] for row in rows] == ["cancelled"] * 3
    assert not lives(commands[0])
    assert all(row["ended"] for row in rows[:2]), "told by the program around the run, which lived to do so"
    assert [row["reason"] for row in rows] == [None] * 3
    assert [row["state"] for row in jobs("cancel", "1")["jobs"]] == ["cancelled"] * 3, "once more changes nothing"


def test_a_run_that_has_ended_stays_as_it_is(jobs: Jobs, slurm: SlurmCommands) -> None:
    jobs.submit("true")
    jobs.wait("1")
    assert [row["state"] for row in jobs("cancel", "1")["jobs"]] == ["done"]
    assert slurm.typed("scancel") == []


def test_a_run_that_slurm_no_longer_has_and_that_left_no_end_is_lost(held: Jobs, slurm: SlurmCommands) -> None:
    held.submit("true", count=2)
    for task in ("101_0", "101_1"):
        (slurm.tasks / task).unlink()
    (held.folder / "1/slurm/101_1.txt").write_text("first\n/usr/bin/python3: not found\x1b\n\n")
    reasons = [row["reason"] for row in held.wait("1", code=1)]
    gone = "it is no longer queued, and how it ended was not recorded"
    assert reasons == [gone, f"{gone}: /usr/bin/python3: not found"]
    assert {row["state"] for row in held.rows()} == {"lost"}
    assert {row["state"] for row in held("cancel", "1")["jobs"]} == {"lost"}, "it had ended before"


def test_a_run_that_slurm_gave_up_is_not_cancelled_while_something_of_it_lives(
    held: Jobs, slurm: SlurmCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = held.submitted("true") / "runs/0"
    folder.mkdir()
    reason = "1 of its processes do not end on c000: 7"
    write_run_record(folder, JobRun(state="running", tries=1, node="c000", reason=reason))
    (slurm.tasks / "101_0").unlink()
    monkeypatch.setattr(waiting, "CANCEL_S", 0.3)
    with only_one(folder, name="1", log=folder / "log.txt", lock=".alive"):
        error = held("cancel", "1", code=6)["error"]
    assert error["evidence"] == f"1 running (is being cancelled; {reason})"
    assert [row["state"] for row in held.rows("1")] == ["cancelled"]


def test_a_link_in_place_of_the_folder_of_jobs_is_no_empty_list(held: Jobs, tmp_path: Path) -> None:
    held.submit("true")
    held.folder.rename(tmp_path / "away")
    held.folder.symlink_to("/etc")
    for verb in (["list"], ["cancel", "1"], ["logs", "1"]):
        error = held(*verb, code=3)["error"]
        assert error["what"] == "the folder of jobs is a link, which gpuprov never makes"
        assert error["evidence"] == f"{held.folder} leads to '/etc'"
    assert "is a link" in held.submit("true", code=3)["error"]["what"]


def test_a_log_that_is_no_file_is_no_empty_log(held: Jobs) -> None:
    log = held.submitted("true") / "runs/0/log.txt"
    log.mkdir(parents=True)
    assert held("logs", "1", code=3)["error"]["evidence"] == f"{log} is a folder"


def test_what_is_wrong_with_a_job_names_the_way_out(held: Jobs) -> None:
    folder = held.submitted("true")
    content = (folder / "order.json").read_bytes()
    for word, change in (("is missing", folder.joinpath("order.json").unlink), ("has more than 4 MiB", None)):
        if change is None:
            (folder / "order.json").write_bytes(content + b" " * (5 << 20))
        else:
            change()
        error = held("show", "1", code=3)["error"]
        assert (error["evidence"], error["fix"]) == (f"order.json {word}", "python3 -m gpuwork.jobs rm 1")


def test_who_holds_the_lock_of_all_jobs_is_named(held: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_folder, "_STORE_S", 0.1)
    held.submit("true")
    lock = held.folder / ".lock"
    with subprocess.Popen(["flock", str(lock), "sleep", "60"], start_new_session=True) as holder:
        wait_until(lambda: not shared_folder.is_free(lock), "nobody holds the lock")
        error = held.submit("true", code=3)["error"]
        os.killpg(holder.pid, signal.SIGKILL)
    assert error["evidence"].startswith(f"{lock} is locked by process {holder.pid} on {os.uname().nodename}: flock ")
    assert f"kill {holder.pid}" in error["fix"]


def test_waiting_has_an_end(held: Jobs) -> None:
    held.submit("true", count=7)
    error = held("wait", "1", "--limit", "0", code=6)["error"]
    assert error["what"] == "7 of 7 jobs had not ended after 0 s"
    assert error["evidence"] == "1.0 waiting, 1.1 waiting, 1.2 waiting, 1.3 waiting, 1.4 waiting and 2 more"


def test_nothing_is_written_where_anything_is_wrong(
    held: Jobs, make: Callable[..., Path], slurm: SlurmCommands
) -> None:
    project = make({"app.py": "def train(units, rate): pass\n"})
    (project / "passwords").symlink_to("/etc/passwd")
    with (project / "huge.bin").open("wb") as file:
        file.truncate(5 * 1024**3)
    order = {"function": "app:train", "arguments": {"unit": 1, "rate": 2}, "project": str(project), "gpus": -1}
    error = held.submit(**order, code=2)["error"]
    assert error["what"] == "5 faults in the order; nothing was written"
    assert error["evidence"].splitlines() == [
        "order: gpus: is -1 (allowed: 0 to 64)",
        f"huge.bin: has 5120 MiB, more than 256 MiB: {WAY_OUT}",
        "passwords: is a link out of the project, to /etc/passwd (allowed: a relative link inside the project)",
        "app.py:1: train: units not given (allowed: (units, rate))",
        "app.py:1: train: unit given, but not accepted (allowed: (units, rate))",
    ]
    assert not held.folder.exists()
    assert slurm.typed("sbatch") == []


def test_an_order_is_checked_without_writing_and_without_slurm(
    held: Jobs, make: Callable[..., Path], slurm: SlurmCommands
) -> None:
    project = make({"app.py": "def train(units): pass\n", "lib/x.py": "", "runs/old": ""})
    (project / "link").symlink_to("lib")
    order = {"function": "app:train", "project": str(project)}
    answer = held("check", stdin=render_order(**order, arguments={"units": 1}))
    assert (answer["files"], answer["faults"]) == (["app.py", "lib/x.py", "link"], [])
    answer = held("check", stdin=render_order(**order, retries=-1), code=2)
    lacking = "units not given"
    assert answer["faults"] == [
        {"file": "order", "line": None, "where": "retries", "message": "is -1", "allowed": "0 to 100"},
        {"file": "app.py", "line": 1, "where": "train", "message": lacking, "allowed": "(units)"},
    ]
    assert held("check", stdin=b"{", code=2)["files"] == []
    assert not held.folder.exists()
    assert [slurm.typed(name) for name in ("sbatch", "squeue")] == [[], []]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"other.py": ""}, "app.py: function: is not among the project's files"),
        ({"app.py": "def train(:"}, "app.py:1: is not Python"),
        ({"app.py": "x = 1\n"}, "app.py: function: has no function train (allowed: def train(...):)"),
        ({"app.py": "async def train(): pass\n"}, "app.py:1: train: is async (allowed: def)"),
        ({"app.py": "def train(a): pass\n"}, "app.py:1: train: a not given (allowed: (a))"),
        ({"app.py": "def train(a, *, b): pass\n"}, "app.py:1: train: a, b not given (allowed: (a, *, b))"),
    ],
)
def test_a_function_that_cannot_be_called(
    held: Jobs, make: Callable[..., Path], files: dict[str, str], words: str
) -> None:
    error = held.submit(function="app:train", project=str(make(files)), code=2)["error"]
    assert error["evidence"].startswith(words)


@pytest.mark.parametrize(
    "text", ["from other import train\n", "from other import *\n", "train = print\n", "@wrap\ndef train(a): pass\n"]
)
def test_a_function_of_which_its_text_does_not_tell_is_believed(
    held: Jobs, make: Callable[..., Path], text: str
) -> None:
    held.submit(function="app:train", project=str(make({"app.py": text})))


def test_a_project_that_is_not_there_is_a_fault_like_any_other(held: Jobs) -> None:
    error = held.submit("true", project="/no/where", retries=-1, code=2)["error"]
    assert error["evidence"].splitlines() == [
        "order: retries: is -1 (allowed: 0 to 100)",
        "order: project: /no/where is not a folder: a project is a folder: /no/where",
    ]


@pytest.mark.parametrize("place", ["gpuwork.jobs.submit.write_file", "gpuwork.freeze.shutil.copy"])
def test_a_disk_that_is_full_leaves_nothing(
    held: Jobs, make: Callable[..., Path], slurm: SlurmCommands, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(place, full)
    error = held.submit("true", project=str(make()), code=3)["error"]
    assert error["what"] == "the jobs cannot be written; nothing was submitted"
    assert "No space left on device" in error["evidence"]
    assert error["fix"] == f"df -h {held.folder}; ls -ld {held.folder}"
    assert [path.name for path in held.folder.iterdir() if path.name.isdecimal()] == []
    assert list((held.folder / ".code").iterdir()) == [] or place.endswith("write_file")
    assert slurm.typed("sbatch") == []
    assert held.rows() == []


def test_a_disk_that_is_full_once_slurm_has_the_runs_takes_them_back(
    held: Jobs, slurm: SlurmCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("gpuwork.jobs.store.write_file", full)
        held.submit("true", code=3)
    assert slurm.listed() == {}
    assert held.rows() == []
    assert held.submit("true")["id"] == "2", "Slurm had 1"


@pytest.mark.slow
def test_a_chunk_that_slurm_refuses_takes_the_others_back(held: Jobs, slurm: SlurmCommands) -> None:
    real = (slurm.bin / "sbatch").read_text()
    refusal = 'case "$*" in *run.sh\\ 2000) echo "sbatch: error: no room" >&2; exit 1;; esac\n'
    (slurm.bin / "sbatch").write_text(real.replace("exec", f"{refusal}exec", 1))
    error = held.submit("true", count=2500, code=4)["error"]
    assert error["what"] == "sbatch failed"
    assert error["evidence"].startswith("sbatch: error: no room (of sbatch ")
    assert slurm.listed() == {}
    assert held.rows() == []
    assert list((held.folder / "1").iterdir()) == []
    held("show", "1", code=2)


REFUSED = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    ("words", "looks", "prints", "fix"),
    [
        (
            "Invalid qos specification",
            "sacctmgr",
            "brief,normal\nnormal",
            "--qos NAME, one of these, or omit it: brief, normal",
        ),
        (
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            "sacctmgr",
            "normal||\nbrief|00:30:00|gres/gpu=1",
            "--gpus, --time or --qos within these limits: normal, brief 00:30:00 gres/gpu=1",
        ),
        (
            "Requested time limit is invalid (missing or exceeds some limit)",
            "sinfo",
            "short|1:00:00\nlong|infinite",
            "--time or --partition within these limits: short 1:00:00, long infinite",
        ),
        (
            "Requested node configuration is not available",
            "sinfo",
            "c[000-001]|2 CPUs|7000 MB|gpu:h100:1",
            "--gpus and --memory that a node has: c[000-001] 2 CPUs 7000 MB gpu:h100:1",
        ),
    ],
)
def test_what_slurm_refuses_for_good_leaves_nothing_and_names_what_there_is(
    held: Jobs, slurm: SlurmCommands, words: str, looks: str, prints: str, fix: str
) -> None:
    slurm.said_by("sbatch", f"{REFUSED}{words}\n", code=1)
    program = slurm.bin / looks
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\n")
    program.chmod(0o755)
    error = held.submit("true", time_limit_s=90, code=2)["error"]
    assert error["what"] == "Slurm refuses these jobs; nothing was submitted"
    assert error["evidence"].splitlines()[0] == f"{REFUSED}{words}"
    assert error["fix"] == fix
    assert not (held.folder / "1").exists()
    slurm.obey("sbatch")
    assert held.submit("true")["id"] == "1"


@pytest.mark.parametrize(
    ("order", "fix"),
    [
        ({"time_limit_s": 288_000}, "--time 72h, the most that the QOS long allows; or another --qos"),
        ({"time_limit_s": 200_000, "retries": 1}, "--time 36h, the most that the QOS long allows; or another --qos"),
        ({"gpus": 3}, "--gpus 2, the most that the QOS long allows; or another --qos"),
        ({"gpus": 3, "time_limit_s": 288_000}, "--time 72h --gpus 2, the most that the QOS long allows; or"),
        ({"gpus": 1, "time_limit_s": 60}, "--gpus, --time or --qos within these limits: normal, long 3-00:00:00 gres"),
    ],
)
def test_what_is_beyond_a_qos_is_refused_with_options_that_it_takes(
    held: Jobs, slurm: SlurmCommands, order: dict[str, Any], fix: str
) -> None:
    words = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    slurm.said_by("sbatch", f"{REFUSED}{words}\n", code=1)
    program = slurm.bin / "sacctmgr"
    program.write_text("#!/bin/sh\necho 'normal||'; echo 'long|3-00:00:00|gres/gpu=2'\n")
    program.chmod(0o755)
    error = held.submit("true", qos="long", code=2, **order)["error"]
    assert error["fix"].startswith(fix)
    assert ("the time of all tries" in error["evidence"]) == ("retries" in order)


TOO_LONG = "Requested time limit is invalid (missing or exceeds some limit)"
PARTITIONS = "Requested partition configuration not available now"
MOST = "the most that partition {} allows; or another --partition"


@pytest.mark.parametrize("words", [TOO_LONG, PARTITIONS])
@pytest.mark.parametrize(
    ("order", "fix"),
    [
        ({"qos": "long", "partition": "short"}, f"--time 1h, {MOST.format('short')}"),
        ({"qos": "long", "partition": "short", "retries": 1}, f"--time 30m, {MOST.format('short')}"),
        ({"qos": "long"}, f"--time 100h, {MOST.format('big')}"),
        ({"qos": "long", "partition": "big"}, f"--time 100h, {MOST.format('big')}"),
        ({"partition": "brief", "time_limit_s": 1801}, f"--time 30m, {MOST.format('brief')}"),
        ({"partition": "brief", "time_limit_s": 1800}, "--time or --partition within these limits: short 1:00:00, "),
        ({"partition": "short"}, "--time or --partition within these limits: short 1:00:00, big 4-04:00:00, "),
        ({"qos": "long", "partition": "any"}, "--time or --partition within these limits: short 1:00:00, big 4-04"),
    ],
)
def test_a_job_that_has_a_longer_time_than_its_partition_is_told_to_give_time(
    held: Jobs, slurm: SlurmCommands, words: str, order: dict[str, Any], fix: str
) -> None:
    slurm.said_by("sbatch", f"{REFUSED}{words}\n", code=1)
    program = slurm.bin / "sinfo"
    program.write_text("#!/bin/sh\nprintf '%s\\n' 'short|1:00:00' 'big*|4-04:00:00' 'brief|30:00' 'any|infinite'\n")
    program.chmod(0o755)
    assert held.submit("true", code=2, **order)["error"]["fix"].startswith(fix)


def test_somebody_of_a_directory_is_added_with_gpuprov(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "passwd"
    monkeypatch.setattr(slurm_refusal, "_ACCOUNTS", own)
    name = pwd.getpwuid(os.geteuid()).pw_name
    said = f"{REFUSED}Invalid account or account/partition combination specified"
    fixes = []
    for content in (f"x{name}:x:1::/:/bin/sh\n", f"x:x:1::/:/bin/sh\n{name}:x:0::/:/bin/sh\n"):
        own.write_text(content)
        refused = slurm_refusal.refused_for_good(SlurmError("no", evidence=said, fix="sinfo"), JobOrder())
        assert refused is not None
        fixes.append(refused.fix)
    assert fixes[0] == f"gpuprov person add {name}, on the cluster's host, by its administrator"
    assert fixes[1].startswith("sacctmgr -i add account people ")


def test_somebody_whom_the_accounting_does_not_know_is_added_by_the_fix(held: Jobs, slurm: SlurmCommands) -> None:
    slurm.said_by("sbatch", f"{REFUSED}Invalid account or account/partition combination specified\n", code=1)
    error = held.submit("true", code=2)["error"]
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert error["what"].startswith(f"Slurm's accounting does not know {name}, and takes no jobs; nothing was")
    assert error["fix"] == (
        "sacctmgr -i add account people description=people organization=people; "
        f"sacctmgr -i add user {name} account=people"
    )


def test_what_scancel_ended_while_it_waited_is_cancelled_for_good(held: Jobs, slurm: SlurmCommands) -> None:
    held.submit("true", count=3)
    held.submit("true")
    held.submit("true")
    first, _, _, alone, gone = sorted(slurm.listed())
    assert subprocess.run([slurm.bin / "scancel", first, alone], check=False).returncode == 0
    (slurm.tasks / gone).unlink()
    states = {row["id"]: (row["state"], (row["reason"] or "")[:21]) for row in held.rows()}
    expected = {"1.0": ("cancelled", ""), "1.1": ("waiting", "Resources"), "1.2": ("waiting", "Resources")}
    expected |= {"2": ("cancelled", ""), "3": ("lost", "it is no longer queue")}
    assert states == expected
    (slurm.folder / "cancelled").unlink()
    again = {row["id"]: (row["state"], (row["reason"] or "")[:21]) for row in held.rows()}
    assert again == expected, "Slurm forgets"
    assert [row["state"] for row in held.wait("1.0", "2", code=1)] == ["cancelled", "cancelled"]


def test_a_refusal_says_so_without_an_answer_and_another_failure_is_none(held: Jobs, slurm: SlurmCommands) -> None:
    slurm.said_by("sbatch", f"{REFUSED}Invalid qos specification\n", code=1)
    error = held.submit("true", code=2)["error"]
    assert error["fix"] == "--qos NAME, one of these, or omit it: sacctmgr -nP show assoc"
    slurm.said_by("sbatch", f"{REFUSED}Socket timed out on send/recv operation\n", code=1)
    held.submit("true", code=4)
    assert [path.name for path in held.folder.iterdir() if path.name.isdigit()] == ["1"]


@pytest.mark.parametrize("program", ["sbatch", "squeue"])
def test_a_slurm_that_talks_nonsense_is_told(held: Jobs, slurm: SlurmCommands, program: str) -> None:
    slurm.said_by(program, "\x1b[31mHello\n101|0|RUNNING|c001|None\n")
    if program == "squeue":
        held.submit("true")
    error = held.submit("true", code=4)["error"] if program == "sbatch" else held("list", code=4)["error"]
    assert "\\x1b[31mHello" in error["evidence"]
    assert "\x1b" not in error["evidence"]


def test_a_cancel_that_slurm_does_not_hear_keeps_what_waits_from_beginning(held: Jobs, slurm: SlurmCommands) -> None:
    held.submit("true")
    slurm.said_by("scancel", "scancel: error: slurm is unreachable\n", code=1)
    assert "slurm is unreachable" in held("cancel", "1", code=4)["error"]["evidence"]
    (row,) = held.rows()
    assert (row["state"], row["reason"]) == ("waiting", "is being cancelled")
    slurm.obey("scancel")
    assert [row["state"] for row in held("cancel", "1")["jobs"]] == ["cancelled"]


@pytest.mark.slow
def test_two_submissions_at_the_same_moment_are_two(held: Jobs, make: Callable[..., Path]) -> None:
    project = make({"train.sh": "true\n"})
    argv = [sys.executable, "-m", "gpuwork.jobs", "--folder", str(held.folder), "submit"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(argv, cwd="/", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(6)
    ]
    order = render_order("sh", "train.sh", project=str(project))
    for process in processes:
        assert process.stdin
        process.stdin.write(order)
        process.stdin.flush()
    answers = [process.communicate()[0] for process in processes]
    assert sorted(json.loads(answer)["id"] for answer in answers) == [*"123456"]
    assert [row["id"] for row in held.rows()] == [*"123456"]
    assert len(list((held.folder / ".code").iterdir())) == 1


def test_a_submission_that_was_cut_off_is_none(held: Jobs, slurm: SlurmCommands) -> None:
    held.submit("true")
    (held.folder / "1/submitted.json").unlink()
    assert held.rows() == []
    assert held("show", "1", code=2)["error"]["what"] == "there is no such job"
    argv, env = ["sh", str(held.folder / "1/run.sh"), "0"], {"PATH": os.environ["PATH"], "SLURM_ARRAY_TASK_ID": "0"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        3,
        "error: this was never submitted: the submission failed, or was interrupted",
    )
    assert not (held.folder / "1/runs/0").exists()
    assert slurm.listed()


def test_a_folder_of_jobs_that_cannot_be_this_accounts_is_told(held: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    held.submit("true")
    monkeypatch.setattr("gpuwork.jobs.store.os.geteuid", lambda: 4242)
    error = held.submit("true", code=3)["error"]
    assert error["what"] == "the folder of jobs belongs to another account; nothing was submitted"
    assert error["evidence"] == f"{held.folder} belongs to uid {os.getuid()}, but this process has uid 4242"
    held.folder = held.folder / "not/mounted/jobs"
    assert held.submit("true", code=3)["error"]["what"] == "the shared folder does not exist; nothing was submitted"


def test_a_folder_of_jobs_that_cannot_be_read_is_told(held: Jobs) -> None:
    held.folder.touch()
    error = held("list", code=3)["error"]
    assert error["what"] == "the folder of jobs cannot be read or written"
    assert "Not a directory" in error["evidence"]
    held.folder = held.folder.with_name("j" * 256)  # not even its kind may be asked for, as below a folder of root's
    error = held("list", code=3)["error"]
    assert error["what"] == "the folder of jobs cannot be read or written"
    assert "File name too long" in error["evidence"]


def test_a_submission_that_somebody_changed_does_not_hide_the_others(held: Jobs) -> None:
    for _ in range(3):
        held.submit("true")
    (held.folder / "2/order.json").write_text("{}")
    rows = held.rows()
    assert [(row["id"], row["state"]) for row in rows] == [("1", "waiting"), ("2", "lost"), ("3", "waiting")]
    assert "schema: is missing" in rows[1]["reason"]
    assert held("show", "2", code=3)["error"]["what"] == f"{held.folder}/2 is not a submission, or was changed"


def test_the_list_has_an_end(held: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwork.jobs.overview.MOST_LISTED", 5)
    for _ in range(3):
        held.submit("true", count=2)
    answer = held("list")
    assert [row["id"] for row in answer["jobs"]] == ["2.0", "2.1", "3.0", "3.1"]
    assert answer["older"] == 1


@pytest.mark.slow
def test_a_run_of_an_old_submission_is_live_whatever_was_submitted_since(
    jobs: Jobs, slurm: SlurmCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwork.jobs.overview.MOST_LISTED", 3)
    jobs.submit("true")
    jobs.submit("sh", "-c", LONG)
    jobs.wait("1")
    begun(jobs, "2")
    slurm.hold()
    for _ in range(3):
        jobs.submit("true", count=2)
    answer = jobs("list", "--live")
    assert [(row["id"], row["state"]) for row in answer["jobs"]] == [
        ("2", "running"),
        ("5.0", "waiting"),
        ("5.1", "waiting"),
    ]
    assert answer["older"] == 2
    (jobs.folder / "2/order.json").write_text("{}")
    (broken,) = (row for row in jobs("list", "--live")["jobs"] if row["id"] == "2")
    assert (broken["state"], broken["node"]) == ("running", None)
    assert broken["reason"].startswith("order: schema: is missing")
    assert [row["state"] for row in jobs("cancel", "2")["jobs"]] == ["lost"]
    assert "2" not in {row["id"] for row in jobs("list", "--live")["jobs"]}


def test_a_submission_is_marked_once_each_of_its_runs_has_an_end_that_stays(held: Jobs) -> None:
    held.submit("true", count=2)
    held.submit("true", count=2)
    held("cancel", "2")
    end = encode(JobRun(state="done", tries=1, exit_status=0)).decode()
    for number in (0, 1):
        assert [row["id"] for row in held("list", "--live")["jobs"]] == [f"1.{run}" for run in range(number, 2)]
        assert not (held.folder / "1/ended").exists()
        run = held.folder / f"1/runs/{number}"
        run.mkdir()
        (run / "done.json").write_text(end)
    assert held("list", "--live")["jobs"] == []
    assert [(held.folder / number / "ended").exists() for number in "12"] == [True, False]
    (held.folder / "1/order.json").write_text("{}")
    assert held("list", "--live")["jobs"] == [], "it is not read again"


def test_a_run_that_is_alone_marks_its_submission(jobs: Jobs) -> None:
    jobs.submit("true")
    jobs.wait("1")
    wait_until((jobs.folder / "1/ended").exists, "it is not marked")


@pytest.mark.parametrize("text", ["x", "0", "01", "1.x", "1.", "-1", "1_0", "1.00", "../1", "1\n", "9" * 99])
def test_what_is_no_id_is_refused(held: Jobs, text: str) -> None:
    error = held("show", "--", text, code=2)["error"]
    assert error["what"] == "that is not the id of a job"


@pytest.mark.parametrize("text", ["2", "1.0", "3.5"])
def test_a_job_that_is_not_there_is_refused(held: Jobs, text: str) -> None:
    held.submit("true")
    held.submit("true", count=5)
    if text == "2":
        text = "7"
    assert held("cancel", text, code=2)["error"]["evidence"] == f"{text} is not in {held.folder}"


def test_without_slurm_there_is_an_error(held: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    error = held.submit("true", code=4)["error"]
    assert "No such file or directory: 'sbatch'" in error["evidence"]


def test_the_folder_is_that_of_the_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert str(arguments.FOLDER) == "/shared/jobs"
    with pytest.raises(SystemExit) as caught:
        main(["wait", "1", "--limit", "soon"])
    assert caught.value.code == 2
    assert "soon is not a whole number up to 86400" in capsys.readouterr().err
