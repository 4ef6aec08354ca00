"""What Slurm is told, and that what it says is read strictly and with limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuprov.shapes.job_order import JobOrder
from gpuprov.shapes.job_run import Chunk
from gpuwork.errors import SlurmError
from gpuwork.jobs import slurm
from gpuwork.jobs.batch import Queued
from gpuwork.jobs.command import ask
from gpuwork.jobs.slurm import find_run, find_tasks, parse_queue, render_run_script, sbatch_argv
from gpuwork.jobs.slurm_ends import CancelledTasks, parse_ends
from gpuwork.jobs.store import CHUNK, chunks_of

ORDER = JobOrder(
    command=("true",), name="sweep", count=2500, at_most=8, time_limit_s=90, memory_bytes=1024**3 + 1, gpus=2, retries=1
)
FOLDER = Path("/shared/jobs/7")


def test_an_order_becomes_words_of_sbatch() -> None:
    assert sbatch_argv(ORDER, FOLDER, (1000, 1000), after=17) == [
        "sbatch",
        "--parsable",
        "--requeue",
        "--export=NONE",
        "--nodes=1",
        "--ntasks=1",
        "--open-mode=append",
        "--job-name=sweep",
        "--chdir=/shared/jobs/7",
        "--output=/shared/jobs/7/slurm/%A_%a.txt",
        "--array=0-999%8",
        "--gres=gpu:2",
        "--time=3",  # two tries of 90 s
        "--mem=1025M",
        "--dependency=afterany:17",
        "/shared/jobs/7/run.sh",
        "1000",
    ]


def test_what_is_not_asked_for_is_not_said() -> None:
    argv = sbatch_argv(JobOrder(command=("true",), gpus=0), FOLDER, (0, 1), after=None)
    assert argv[10:] == ["--array=0-0", "/shared/jobs/7/run.sh", "0"]


def test_a_partition_is_handed_on() -> None:
    argv = sbatch_argv(JobOrder(command=("true",), gpus=0, partition="short", qos="long"), FOLDER, (0, 1), after=None)
    assert argv[11:] == ["--partition=short", "--qos=long", "/shared/jobs/7/run.sh", "0"]


def test_shards_take_the_place_of_gpus() -> None:
    argv = sbatch_argv(JobOrder(command=("true",), shards=2), FOLDER, (0, 1), after=None)
    assert argv[11:] == ["--gres=shard:2", "/shared/jobs/7/run.sh", "0"]


def test_a_type_stands_before_the_number_of_gpus() -> None:
    argv = sbatch_argv(JobOrder(command=("true",), gpus=2, gpu_type="1g.10gb"), FOLDER, (0, 1), after=None)
    assert argv[11:] == ["--gres=gpu:1g.10gb:2", "/shared/jobs/7/run.sh", "0"]


CHUNKS = [Chunk(slurm=17, first=0, size=1000), Chunk(slurm=20, first=1000, size=500)]


@pytest.mark.parametrize(
    ("said", "cancelled"),
    [
        ("17_3|CANCELLED\n20_7|CANCELLED\n17_4|FAILED\n", [3, 1007]),
        ("17_[0-2,7%4]|CANCELLED by 10001\n20_1|COMPLETED\n", [0, 1, 2, 7]),
        ("17_3|CANCELLED by 0\n17_3|COMPLETED\n", []),
        ("20_[0-9999999]|CANCELLED by 0\n", list(range(1000, 1500))),
        ("17_[1,3,...]|CANCELLED by 0\n", [1, 3]),
        ("170_3|CANCELLED\n17|CANCELLED\n17_|CANCELLED\n17_[3|CANCELLED\n17_x|CANCELLED\nnonsense\n\n", []),
    ],
)
def test_the_runs_that_slurm_has_cancelled_are_told_by_its_words(said: str, cancelled: list[int]) -> None:
    assert [number for number, state in parse_ends(said, CHUNKS).items() if state == "CANCELLED"] == cancelled


def test_a_submission_is_asked_of_once_and_so_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    for name, says in (
        ("squeue", "exit 1"),
        ("sacct", 'echo "17_[0-1]|CANCELLED by 0"; echo "17_[2-996]|RUNNING"; echo "17_997|PENDING"'),
    ):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >>{log}\n{says}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = CancelledTasks()
    for _ in range(3):
        assert asked.of(CHUNKS, []) == {0, 1, 997, 998, 999}, "nothing on record says that the last ones began"
    assert asked.of(CHUNKS, [0, 998]) == {0, 1, 997, 999}, "Slurm says it of 0"
    assert log.read_text().splitlines() == [
        "squeue -h -r -t CANCELLED -j 17,20 -o %F_%K|%T",
        "sacct -n -X -P -j 17,20 -o JobID,State",
    ]
    for number in range(100, 200):
        assert asked.of([Chunk(slurm=number, first=0, size=1)], []) == frozenset()
    assert len(log.read_text().splitlines()) == 40


@pytest.mark.parametrize(
    ("runs", "chunks"),
    [
        (1, [(0, 1)]),
        (1000, [(0, 1000)]),
        (1001, [(0, 1000), (1000, 1)]),
        (2500, [(0, 1000), (1000, 1000), (2000, 500)]),
    ],
)
def test_runs_are_chunks_below_the_largest_array(runs: int, chunks: list[tuple[int, int]]) -> None:
    assert chunks_of(runs, CHUNK) == chunks


def test_the_script_quotes_what_it_names() -> None:
    assert "'/shared/it'\\''s/7'" in render_run_script(Path("/shared/it's/7"))


def test_tasks_are_read_and_what_is_none_is_left_out() -> None:
    said = (
        "17|0|RUNNING|c001|None\n"
        "17|999|PENDING||Resources\n"
        "17|3|REQUEUE_HOLD||launch failed requeued held\n"
        "17|4|COMPLETING|c002|None\n"
        "17|5|A_NEW_STATE|c002|\n"
        "17|6|CANCELLED|c002|None\n"
        "18|N/A|RUNNING|c000|None\n"
    )
    assert parse_queue(said) == {
        (17, 0): Queued(state="running", node="c001", reason=None),
        (17, 999): Queued(state="waiting", node=None, reason="Resources"),
        (17, 3): Queued(state="waiting", node=None, reason="launch failed requeued held"),
        (17, 4): Queued(state="running", node="c002", reason=None),
        (17, 5): Queued(state="running", node="c002", reason=None),
    }
    assert parse_queue("") == {}


@pytest.mark.parametrize(
    "line",
    [
        "slurm_load_jobs error: Unable to contact slurm controller",
        "17|0|RUNNING|c001",
        "17|0|RUNNING|c001|None|more",
        "17|[0-9]|PENDING||Resources",
        "-1|0|RUNNING|c001|None",
        "17|0|running|c001|None",
        "17|0|RUNNING|c001|\x1b[2Jcleared",
        "99999999999999|0|RUNNING|c001|None",
        f"17|0|RUNNING|{'c' * 1000}|None",
        f"17|0|RUNNING|c001|{'r' * 1000}",
        "17|0|RUNNING|c001|None\r",
    ],
)
def test_a_line_that_is_not_as_it_was_asked_for_is_an_error(line: str) -> None:
    with pytest.raises(SlurmError, match="the output of squeue cannot be read") as caught:
        parse_queue(f"17|1|RUNNING|c001|None\n{line}\n")
    assert caught.value.evidence == ascii(line)[:200]
    assert caught.value.exit_code == 4


def test_a_run_is_found_in_the_array_that_has_it() -> None:
    chunks = [Chunk(slurm=17, first=0, size=1000), Chunk(slurm=20, first=1000, size=500)]
    queue = {(20, 7): Queued(state="waiting", node=None, reason=None)}
    assert find_run(queue, chunks, 1007) == queue[20, 7]
    assert find_run(queue, chunks, 7) is None
    assert find_tasks(queue, chunks, 1007) == ["20_7"]
    assert find_tasks(queue, chunks, 7) == []
    assert find_tasks(queue, chunks, None) == ["20"]


def test_a_command_that_hangs_is_ended() -> None:
    with pytest.raises(SlurmError, match="sh failed") as caught:
        ask(["sh", "-c", "sleep 60 & sleep 60"], limit_s=0.2)
    assert caught.value.evidence.startswith("no answer within 0.2 s (of ")


def test_a_command_that_says_too_much_is_ended() -> None:
    with pytest.raises(SlurmError) as caught:
        ask(["sh", "-c", "yes"], limit_s=30, most_bytes=1000)
    assert caught.value.evidence.startswith("it printed more than 1,000 bytes")


def test_a_command_that_fails_or_is_not_there_is_told_with_its_words() -> None:
    with pytest.raises(SlurmError) as caught:
        ask(["sh", "-c", "echo no luck >&2; exit 3"], limit_s=30)
    assert caught.value.evidence.startswith("no luck (of sh -c ")
    with pytest.raises(SlurmError) as caught:
        ask(["/nowhere/squeue"], limit_s=30)
    assert "No such file or directory" in caught.value.evidence


def test_a_queue_that_is_full_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here sbatch tries again and again until it is ended; these are its words."""
    sbatch = tmp_path / "sbatch"
    said = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying"
    sbatch.write_text(f"#!/bin/sh\necho '{said}' >&2\nsleep 60\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "SUBMIT_S", 0.5)
    with pytest.raises(SlurmError, match=r"Slurm has no room for 9,999 more jobs; nothing was submitted"):
        slurm.Slurm().begin(JobOrder(command=("true",), count=9999), tmp_path, tell=lambda _: None)


def test_what_a_user_exports_for_slurm_does_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_FORMAT", "SBATCH_GRES", "SLURM_CONF"):
        monkeypatch.setenv(name, "set")
    assert ask(["sh", "-c", "echo $SQUEUE_FORMAT $SBATCH_GRES $SLURM_CONF"], limit_s=30) == "set\n"
