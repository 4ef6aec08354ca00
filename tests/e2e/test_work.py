"""Jobs on a real Slurm, and on real workers with their broker: a folder that all nodes share, `submit`, and `jobs`."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.waiting import Wait
from gpuprov.drivers.base import LABEL_IMAGE, LABEL_RECIPE
from gpuprov.drivers.registry import open_driver
from tests.e2e.bombs import BOMB, CHAINS, ended, lives_of
from tests.e2e.conftest import output
from tests.e2e.desk import KILL_NODE, ODD, QUICK, Desk, again_within, kinds, lasting, lasting_until_hit, open_desk
from tests.e2e.job_attempts import ADMINISTRATION, SECRETS, attempt_as_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

ROOT = Path(__file__).parents[2]
ACCOUNT = 59400
FLOWER = "/etc/gpuwork/flower.py"
SLURM, WORKERS = (kinds(role, QUICK) for role in ("slurm", "worker"))
LXD_WORKERS, DOCKER_WORKERS = (kinds("worker", {(engine, "worker")}) for engine in ("lxd", "docker"))


@pytest.fixture(scope="module", params=[*SLURM, *WORKERS])
def desk(
    request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    with open_desk(request, gpuprov, place, tmp_path_factory) as made:
        yield made


def test_what_one_node_writes_the_others_read_and_others_of_the_host_do_not(desk: Desk) -> None:
    owner = ("runuser", "-u", "work", "--")
    desk.gpuprov.in_node(desk.place.node(0), *owner, "sh", "-c", "umask 077; echo 42 >/shared/answer")
    assert desk.gpuprov.in_node(desk.place.node(1), *owner, "cat", "/shared/answer").strip() == "42"
    assert (desk.folder / "answer").read_text() == "42\n"
    assert desk.gpuprov.in_node(desk.place.node(1), "stat", "-c", "%u", "/shared/answer").strip() == str(ACCOUNT)
    assert stat.S_IMODE(desk.folder.parent.stat().st_mode) == stat.S_IRWXU
    assert barred(desk, desk.place.node(1)) == (set() if desk.engine == "docker" else {"nosuid", "nodev"})
    (desk.folder / "answer").unlink()


def barred(desk: Desk, node: str) -> set[str]:
    """What a node mounts the shared folder without."""
    options = desk.gpuprov.in_node(node, "findmnt", "-no", "VFS-OPTIONS", "/shared").strip().split(",")
    return {"nosuid", "nodev"} & set(options)


def test_variables_of_nodes_and_of_the_simulator_reach_every_way_in(desk: Desk) -> None:
    """The table of docs/tools.md."""
    show = 'printf "%s|%s" "$GPT_ODD" "${NUMBA_ENABLE_CUDASIM-none}"'
    wanted, node = f"{ODD.partition('=')[2]}|1", desk.place.node(1)
    inside: dict[str, tuple[str, ...]] = {
        "exec": ("sh", "-c", show),
        "runuser -l": ("runuser", "-l", "work", "-c", show),
        "su -": ("su", "-", "work", "-c", show),
    }
    if desk.role == "slurm":
        (desk.folder / "show.sh").write_text(f"#!/bin/sh\n{show}\n")
        gpu = ("--gres=gpu:1", "-w", node)
        inside["srun"] = ("srun", "-Q", *gpu, "sh", "-c", show)
        inside["srun of an empty environment"] = ("env", "-i", "/usr/bin/srun", "-Q", *gpu, "/bin/sh", "-c", show)
        for export in ("ALL", "NONE"):
            batch = f"sbatch -Q --wait {' '.join(gpu)} --export={export} -o /shared/out.{export} /shared/show.sh"
            inside[f"sbatch {export}"] = ("sh", "-c", f"{batch} && cat /shared/out.{export}")
    seen = {way: desk.gpuprov.in_node(node, *argv) for way, argv in inside.items()}
    seen["ssh COMMAND"] = desk.gpuprov("ssh", node, show).stdout
    seen["ssh, a login shell"] = desk.gpuprov("ssh", node, f"bash -lc '{show}'").stdout
    job = desk.submit("--gpus", "1", "--no-project", "--", "sh", "-c", show)
    desk("jobs", "wait", job)
    seen["submit"] = desk.log(job).rstrip("\n")
    assert seen == dict.fromkeys(seen, wanted)
    unset = ("env", "-u", ODD.partition("=")[0])  # `su` keeps what `exec` has
    assert desk.gpuprov.in_node(node, *unset, "su", "work", "-c", show) == "|1", "pam_env takes no `#`"
    desk.gpuprov("exec", node, "--", "sh", "-c", "command -v sudo cron crond", expect=127)


def test_a_node_has_what_python_needs_and_shows_its_own_memory(desk: Desk) -> None:
    node = desk.place.node(1)
    tools = "git --version && python3 -m venv --system-site-packages /tmp/env && /tmp/env/bin/pip --version"
    assert "/tmp/env/" in desk.gpuprov.in_node(node, "sh", "-c", f"{tools}; rm -rf /tmp/env")
    refused = desk.gpuprov("exec", node, "--", "pip", "install", "einops", expect=1)
    assert "externally-managed-environment" in refused.all
    kib = int(desk.gpuprov.in_node(node, "sed", "-n", r"s/^MemTotal: *\([0-9]*\) kB$/\1/p", "/proc/meminfo"))
    if desk.engine != "docker" and os.path.ismount("/var/lib/lxcfs"):
        assert kib == 2 << 20
    else:
        assert kib == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 10


def test_work_without_a_gpu_finds_none(desk: Desk) -> None:
    look = "nvidia-smi -L; python3 -m smoke_kernels matmul --quick >/dev/null 2>&1 && echo a kernel ran"
    job = desk.submit("--gpus", "0", "--no-project", "--", "sh", "-c", f"{look}; true")
    desk("jobs", "wait", job)
    assert desk.log(job).strip() == "No devices were found"
    if desk.role == "slurm":
        for more in ((), ("--gres=none",)):
            said = desk.gpuprov.in_node(desk.controller, "srun", "-Q", *more, "sh", "-c", f"{look}; true")
            assert said.strip() == "No devices were found"
        typed = ("srun", "-Q", "-C", "h100", "--gres=gpu:h100:1", "nvidia-smi", "-L")
        assert desk.gpuprov.in_node(desk.controller, *typed).startswith("GPU 0: SIMULATED")
        by_count = ("srun", "-Q", "--gpus=h100:1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        assert desk.gpuprov.in_node(desk.controller, *by_count) == "0\n"


def test_what_a_job_leaves_behind_ends_with_it_and_not_with_another(desk: Desk) -> None:
    leave = "setsid sh -c 'sleep 7777 & exit 0' >/dev/null 2>&1 </dev/null & sleep 1; {}"
    count = ("sh", "-c", "pgrep -cx -f 'sleep 7777' || true")
    node = desk.place.node(1)
    if desk.role != "slurm":
        job = desk.submit("--no-project", "--", "sh", "-c", leave.format("true"))
        desk("jobs", "wait", job)
        assert [desk.gpuprov.in_node(desk.place.node(number), *count).strip() for number in (0, 1)] == ["0", "0"]
        return
    batch = ("sbatch", "--parsable", "-o", "/dev/null", "-w", node, "--wrap", leave.format("sleep 300"))
    first, second = (desk.gpuprov.in_node(desk.controller, *batch).strip() for _ in range(2))

    def left(wanted: str) -> None:
        Wait(what=f"{wanted} processes", timeout_s=30, fix="look at the epilog").until(
            lambda: desk.gpuprov.in_node(node, *count).strip(), lambda found: found == wanted
        )

    left("2")
    desk.gpuprov.in_node(desk.controller, "scancel", first)
    left("1")
    desk.gpuprov.in_node(desk.controller, "scancel", second)
    left("0")
    mark = f"SLURM_JOB_ID=4242 SLURMD_NODENAME={node} setsid sleep 7777 >/dev/null 2>&1 </dev/null &"
    desk.gpuprov.in_node(node, "sh", "-c", mark)
    said = desk("verify", node, expect=1).all
    assert "slurm-leftovers: fail: of jobs that have ended: process" in said
    desk.gpuprov.in_node(node, "pkill", "-x", "-f", "sleep 7777")
    desk("verify", node)


def test_a_command_of_a_project_runs_as_the_account_and_is_told(desk: Desk, tmp_path: Path) -> None:
    tell = ("--notify", "sh -c 'cat >told; id -un >>told'")
    job = desk.submit("--project", str(desk.project), *tell, "--", "python3", "train.py", "--lr", "0.1")
    desk("jobs", "wait", job)
    shown = desk.shown(job)
    assert (shown["state"], shown["exit_status"], shown["tries"]) == ("done", 0, 1), shown
    assert shown["node"] in (desk.place.node(0), desk.place.node(1))
    assert f"trained ['--lr', '0.1'] {ACCOUNT} {shown['node']}" in desk("jobs", "logs", job).stdout
    assert (desk.folder / "jobs" / job / "runs/0" / "work/result.txt").read_text() == "42"
    desk("jobs", "pull", job, str(tmp_path / "back"))
    assert (tmp_path / "back/work/result.txt").read_text() == "42"
    assert "trained" in (tmp_path / "back/log.txt").read_text()
    ended = json.loads((desk.folder / "jobs" / job / "runs/0" / "done.json").read_text())
    node = desk.nodes()[shown["node"]]
    assert ended["image"] in node["image"], ended
    assert (shown["gpus"], shown["simulated"]) == (node["gpus"], True), shown
    assert desk.gpuprov.in_node(desk.controller, "ls", "/opt").strip() == ""
    assert job in desk("jobs").stdout
    Wait(what="a notification", timeout_s=30, fix=f"gpuprov jobs show {job}").until(
        lambda: desk.gpuprov.json(*desk.typed(("jobs", "show", job)))["submissions"][0].get("notified") or {},
        lambda found: bool(found.get("ok")),
    )
    told = (desk.folder / "jobs" / job / "told").read_text()
    assert '"state": "done"' in told
    assert told.endswith("}work\n")


def test_a_package_in_the_project_is_used_and_results_are_fetched_as_the_pages_say(desk: Desk, tmp_path: Path) -> None:
    pages = ROOT / "docs"
    (typed,) = re.findall(
        r"gpuprov submit -- (env PYTHONPATH=lib python3) train.py", (pages / "packages.md").read_text()
    )
    fetch = "gpuprov cp c000:/shared/jobs/2/runs/0/work results"
    assert fetch in (pages / "results.md").read_text()
    (tmp_path / "vision/lib").mkdir(parents=True)
    (tmp_path / "vision/lib/example.py").write_text("WORD = 'own'\n")
    (tmp_path / "vision/train.py").write_text("import example\nopen('model.txt', 'w').write(example.WORD)\n")
    job = desk.submit("--project", str(tmp_path / "vision"), "--", *typed.split(), "train.py")
    desk("jobs", "wait", job)
    words = fetch.replace("c000", desk.place.node(1)).replace("/2/", f"/{job}/").split()[1:-1]
    desk.gpuprov(*words, str(tmp_path / "results"))
    assert (tmp_path / "results/model.txt").read_text() == "own"


def test_hours_of_all_jobs_with_a_gpu_are_counted_once(desk: Desk) -> None:
    """Without accounting, and of jobs whose names read like words of Slurm's, too; workers know theirs alone."""
    usage = ("usage", "--by", "job", "--since", "10m")
    before = {row["name"] for row in desk.gpuprov.json(*desk.typed(usage))["rows"]}
    job = desk.submit("--gpus", "1", "--no-project", "--", "sleep", "1")
    desk("jobs", "wait", job)
    submitted = desk.shown(job)
    node = desk.place.node(0)
    if desk.role == "worker":
        rows = [row for row in desk.gpuprov.json(*desk.typed(usage))["rows"] if row["name"] not in before]
        assert [row["name"] for row in rows] == [submitted["id"]]
        return
    desk.gpuprov.in_node(node, "srun", "-Q", "--job-name", "a\n   JOB_GRES=gpu:0", "--gres=gpu:1", "sleep", "2")
    desk.gpuprov.in_node(node, "srun", "-Q", "hostname")
    script = "cd /tmp && exec sbatch --wait --parsable -o /dev/null -a 0-1 --gpus 1 --wrap 'sleep 1'"
    array = desk.gpuprov.in_node(node, "runuser", "-u", "work", "--", "sh", "-c", script).strip()
    form = ("-h", "-t", "all", "-o", "%F %K %S %e")
    squeue = desk.gpuprov.in_node(node, "env", "TZ=UTC", "SLURM_TIME_FORMAT=%s", "squeue", "-a", "-r", *form)
    lasted = {}
    for line in squeue.splitlines():
        number, task, start, end = line.split()
        lasted[number if task == "N/A" else f"{number}_{task}"] = int(end) - int(start)
    rows = [row for row in desk.gpuprov.json(*desk.typed(usage))["rows"] if row["name"] not in before]
    assert {row["name"]: row["gpu_seconds"] for row in rows} == {row["name"]: lasted[row["name"]] for row in rows}
    owner = submitted["submitter"]["name"]
    assert sorted(row["person"] for row in rows) == sorted([owner, "root", "work", "work"])
    assert {row["name"] for row in rows} >= {f"{array}_0", f"{array}_1"}


def test_runs_of_a_sweep_and_a_function(desk: Desk) -> None:
    sweep = desk.submit("--no-project", "--name", "sweep", "--count", "3", "--at-most", "2", "--", "echo", "run {n}")
    function = desk.submit("--project", str(desk.project), "app.tasks:double", "-a", "number=21", "-a", "word=many")
    desk("jobs", "wait", sweep, function)
    assert [desk("jobs", "logs", f"{sweep}.{number}").stdout.strip() for number in range(3)] == [
        "run 0",
        "run 1",
        "run 2",
    ]
    assert "doubled 42 many" in desk("jobs", "logs", function).stdout


def test_a_run_leaves_nothing_to_the_next_and_says_who_submitted_it(desk: Desk) -> None:
    place = "place=$(python3 -m site --user-site); mkdir -p $place"
    leave = f"{place}; echo 'print(4711)' >$place/usercustomize.py; echo $HOME"
    for command in (leave, "python3 -c 'print(42)'"):
        job = desk.submit("--gpus", "0", "--no-project", "--", "sh", "-c", command)
        desk("jobs", "wait", job)
    assert desk.log(str(int(job) - 1)) == f"/shared/jobs/{int(job) - 1}/runs/0/home\n"
    assert desk.log(job) == "42\n"
    (row,) = desk.rows(job)
    assert (row["submitter"]["name"], row["submitter"]["host"]) == ("root", os.uname().nodename)
    # One in the account's own home is run by no program of ours: it would be printed before the document.
    desk.gpuprov.in_node(desk.controller, "runuser", "-l", "work", "-c", leave)
    assert desk.shown(job)["state"] == "done"
    desk.gpuprov.in_node(desk.controller, "rm", "-r", "/home/work/.local")


def test_one_that_always_fails_has_its_tries_and_its_log(desk: Desk) -> None:
    job = desk.submit("--no-project", "--retries", "1", "--", "sh", "-c", "echo no luck; exit 3")
    desk("jobs", "wait", job, expect=1)
    shown = desk.shown(job)
    assert (shown["state"], shown["exit_status"], shown["tries"]) == ("failed", 3, 2), shown
    assert desk("jobs", "logs", job).stdout.count("no luck") == 2


def test_cancel_ends_all_that_a_job_has_started(desk: Desk) -> None:
    second = f"41{os.getpid()}"
    job = desk.begin("--no-project", "--", "sh", "-c", f"sleep {second} & sleep {second}")
    node = desk.shown(job)["node"]
    desk("jobs", "cancel", job)
    assert desk.shown(job)["state"] == "cancelled"
    assert desk.gpuprov("exec", node, "--", "pgrep", "-f", f"sleep {second}", expect=1).stdout == ""


def test_a_job_that_takes_all_processes_is_ended_and_others_go_on(desk: Desk) -> None:
    mark = f"{desk.place.cluster}-bomb"
    bomb = desk.submit("--no-project", "--", "python3", "-c", BOMB, mark)
    row = ended(desk, bomb, seconds=90)
    assert (row["state"], row["tries"]) == ("failed", 1), row
    assert re.match(r"used up the processes that its node has for jobs \(\d+ of \d+\)", row["reason"]), row
    assert lives_of(mark) == 0
    after = desk.submit("--no-project", "--", "true")
    desk("jobs", "wait", after)
    if desk.role == "slurm":
        assert set(desk.gpuprov.in_node(desk.controller, "sinfo", "-h", "-o", "%T").split()) == {"idle"}


def test_a_job_that_forks_all_the_time_is_cancelled_before_the_command_ends(desk: Desk) -> None:
    mark = f"{desk.place.cluster}-chains"
    chains = desk.begin("--no-project", "--", "python3", "-c", CHAINS, mark)
    desk("jobs", "cancel", chains)
    assert desk.shown(chains)["state"] == "cancelled"
    assert lives_of(mark) == 0


def test_what_a_job_leaves_in_its_folders_is_a_row_and_hurts_no_other_job(desk: Desk) -> None:
    alive = "rm -f .alive && mkfifo .alive .cancelled.part ../../.cancelled.part"
    records = "rm -f state.json && ln -s state.json state.json && rm ../../order.json && mkfifo ../../order.json"
    job = desk.submit("--no-project", "--", "sh", "-c", f"cd .. && {alive} && {records}")
    other = desk.submit("--no-project", "--", "echo", "other")
    desk("jobs", "wait", other)
    assert desk("jobs", "logs", other).stdout == "other\n"
    Wait(what="the job to leave it", timeout_s=60, fix="look at the queue").until(
        lambda: desk("jobs").stdout, lambda said: "order.json is a FIFO" in said
    )
    desk("jobs", "cancel", job)
    desk("jobs", "rm", job, "--yes")
    desk("jobs", "show", job, expect=2)
    assert other in desk("jobs").stdout


def test_a_job_that_outlives_its_time_limit_has_failed_for_that_reason(desk: Desk) -> None:
    job = desk.submit("--no-project", "--time", "2", "--", "sleep", f"42{os.getpid()}")
    desk("jobs", "wait", job, expect=1)
    shown = desk.shown(job)
    assert (shown["state"], shown["tries"]) == ("failed", 1), shown
    assert shown["reason"] == "ended after its time limit of 2 s"
    left = desk.gpuprov("exec", shown["node"], "--", "pgrep", "-f", f"sleep 42{os.getpid()}", expect=1)
    assert left.stdout == ""


def test_a_job_that_its_node_has_no_memory_for_is_tried_once_and_says_so(desk: Desk) -> None:
    job = desk.submit("--no-project", "--retries", "3", "--", "python3", "-c", "bytearray(3 << 30)")
    ended = desk("jobs", "wait", job, expect=1)
    assert "out of memory (limit 2 GiB)" in ended.stdout
    shown = desk.shown(job)
    assert (shown["state"], shown["exit_status"], shown["tries"]) == ("failed", 137, 1), shown


@pytest.mark.parametrize("desk", SLURM, indirect=True)
def test_slurm_is_told_the_time_limit_and_the_memory(desk: Desk) -> None:
    job = desk.begin("--no-project", "--name", "limited", "--time", "1m", "--memory", "200MiB", "--", "sleep", "30")
    jobs = desk.gpuprov.in_node(desk.controller, "scontrol", "--oneliner", "show", "job")
    (line,) = (line.split() for line in jobs.splitlines() if "JobName=limited" in line.split())
    assert "TimeLimit=00:01:00" in line
    assert "MinMemoryNode=200M" in line
    desk("jobs", "cancel", job)
    refused = desk("submit", "--no-project", "--memory", "900TiB", "--", "true", expect=2)
    assert "has 921600 GiB of memory (most: 1945 MiB)" in refused.stderr, "no node has so much"


@pytest.mark.parametrize("desk", SLURM, indirect=True)
def test_a_cluster_without_the_folder_says_what_to_type(gpuprov: Gpuprov, desk: Desk) -> None:
    gpuprov("cluster", "up", "--name", desk.place.cluster, "--share", "false", "--no-verify", "--engine", desk.engine)
    refused = desk("jobs", expect=2)
    assert f"gpuprov cluster up --name {desk.place.cluster} --share" in refused.stderr
    assert (desk.folder / "jobs").is_dir()
    gpuprov("cluster", "up", "--name", desk.place.cluster, "--share", "--no-verify", "--engine", desk.engine)
    assert desk("jobs").stdout.strip()


# A network may accept connections to any address: whether a broker is there shows in what it says
AMQP = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], 5672), 3) as connection:
        connection.sendall(b"AMQP\\0\\0\\x09\\x01")
        sys.exit(0 if b"RabbitMQ" in connection.recv(4096) else 1)
except OSError:
    sys.exit(1)
"""


BRIEF = lasting(5)


def host_addresses() -> list[str]:
    """All of this host, that of its loopback among them."""
    links = json.loads(output("ip", "-json", "-4", "address"))
    return [address["local"] for link in links for address in link["addr_info"]]


@pytest.mark.parametrize("desk", WORKERS, indirect=True)
def test_a_run_whose_worker_is_killed_runs_again(desk: Desk) -> None:
    job = desk.begin(*lasting_until_hit())
    desk.gpuprov.in_node(desk.shown(job)["node"], "pkill", "-KILL", "-f", "gpuwork[.]worker")
    again_within(desk, job)


def begin_on_second(desk: Desk) -> str:
    """A job that runs on the second node until that is hit, for the first one has the broker."""
    jobs = [desk.submit(*lasting_until_hit()) for _ in range(2)]
    Wait(what="both to run", timeout_s=60, fix="look at the queue").until(
        lambda: [desk.shown(job)["state"] for job in jobs], lambda states: states == ["running"] * 2
    )
    other, job = sorted(jobs, key=lambda job: desk.shown(job)["node"] == desk.place.node(1))
    desk("jobs", "cancel", other)
    return job


@pytest.mark.parametrize("desk", LXD_WORKERS, indirect=True)
def test_a_run_whose_node_is_stopped_runs_again_elsewhere(desk: Desk) -> None:
    job, second = begin_on_second(desk), desk.place.node(1)
    refused = desk.gpuprov("stop", second, expect=2)
    assert f"{job} of work (sh) on {second}" in refused.stderr
    desk.gpuprov("stop", second, "--force")
    again_within(desk, job)
    assert desk.shown(job)["node"] == desk.controller
    desk.gpuprov("start", second)
    assert barred(desk, second) == {"nosuid", "nodev"}
    desk.gpuprov("verify", "--cluster", desk.place.cluster)


@pytest.mark.parametrize("desk", LXD_WORKERS, indirect=True)
def test_a_run_whose_node_is_killed_behind_gpuprov_s_back_runs_again_elsewhere(desk: Desk) -> None:
    job, second = begin_on_second(desk), desk.place.node(1)
    output(*KILL_NODE[desk.engine], second)
    again_within(desk, job)
    assert desk.shown(job)["node"] == desk.controller
    desk.gpuprov("start", second)
    desk.gpuprov("verify", "--cluster", desk.place.cluster)


@pytest.mark.parametrize("desk", WORKERS, indirect=True)
def test_runs_survive_the_death_of_their_broker(desk: Desk) -> None:
    job = desk.begin(*BRIEF)
    waiting = desk.submit("--no-project", "--count", "4", "--", "echo", "{n}")
    desk.gpuprov.in_node(desk.controller, "pkill", "-KILL", "beam.smp")
    desk("jobs", "wait", job, waiting)
    assert [row["state"] for row in desk.rows(waiting)] == ["done"] * 4
    assert desk("jobs", "logs", job).stdout.count("whole") == 1
    assert desk.shown(job)["tries"] == 1


@pytest.mark.parametrize("desk", DOCKER_WORKERS, indirect=True)
def test_what_waits_for_workers_waits_on_in_a_broker_with_a_new_image(desk: Desk) -> None:
    """Its node looks older; the other node's worker has work all the time."""
    second, busy = desk.place.node(1), desk.submit("--no-project", "--count", "2", "--", "sleep", "600")
    Wait(what="both to run", timeout_s=60, fix="look at the queue").until(
        lambda: [row["state"] for row in desk.rows(busy)], lambda states: states == ["running"] * 2
    )
    waiting = desk.submit("--no-project", "--count", "3", "--", "echo", "{n}")
    older = {LABEL_IMAGE: "older", LABEL_RECIPE: ""}
    open_driver(desk.engine).set_labels(desk.controller, older)
    renewal = desk.gpuprov.start("cluster", "up", "--name", desk.place.cluster, "--renew", "--yes", "--no-verify")
    held = desk.folder / "jobs/.held" / desk.controller
    Wait(what="the node to take no more work", timeout_s=60, fix="look there").until(held.exists, bool)
    runs = {row["node"]: row["id"] for row in desk.rows(busy)}
    desk("jobs", "cancel", runs[desk.controller])
    said = renewal.communicate(timeout=300)
    assert renewal.returncode == 0, said
    assert desk.nodes()[desk.controller]["image"] != "older"
    desk("jobs", "wait", waiting)
    assert {row["node"] for row in desk.rows(waiting)} == {desk.controller}
    assert [(row["state"], row["tries"]) for row in desk.rows(runs[second])] == [("running", 1)]
    desk("jobs", "cancel", busy)


@pytest.mark.parametrize("desk", WORKERS, indirect=True)
def test_the_broker_is_reached_from_nodes_alone_and_its_password_is_nowhere_else(desk: Desk, tmp_path: Path) -> None:
    url = desk.gpuprov.in_node(desk.controller, "cat", "/etc/gpuwork/broker").strip()
    password, address = re.fullmatch(r"amqp://gpuwork:([0-9a-f]{64})@([0-9.]+):5672/gpuwork", url).groups()  # type: ignore[union-attr]
    desk.gpuprov.in_node(desk.place.node(1), "python3", "-c", AMQP, address)
    for elsewhere in (address, desk.nodes()[desk.controller]["address"], *host_addresses()):
        assert subprocess.run([sys.executable, "-c", AMQP, elsewhere], check=False).returncode == 1, elsewhere
    for node in (desk.place.node(0), desk.place.node(1)):
        assert password not in desk.gpuprov.in_node(node, "ps", "axeww")
        desk.gpuprov("exec", node, "--", "grep", "-r", password, "/shared/logs", "/shared/jobs", "/var/log", expect=1)
        desk.gpuprov("exec", node, "--", "runuser", "-u", "nobody", "--", "cat", "/etc/gpuwork/broker", expect=1)
    status = desk.gpuprov(
        "exec", desk.controller, "--", "runuser", "-u", "work", "--", "rabbitmqctl", "status", expect=1
    )
    assert password not in status.all
    bundle = tmp_path / "bundle.tar.gz"
    desk.gpuprov("bundle", str(bundle))
    with tarfile.open(bundle) as parts:
        for part in parts.getmembers():
            content = parts.extractfile(part)
            assert content is None or password.encode() not in content.read(), part.name


@pytest.mark.parametrize("desk", WORKERS, indirect=True)
def test_a_job_gets_at_its_own_queue_and_gpu_alone(desk: Desk) -> None:
    nodes, all_gpus = desk.nodes(), 4
    elsewhere = (nodes[desk.controller]["address"], *host_addresses())
    assert {"127.0.0.1", desk.place.address(0, 1)} <= {*elsewhere}
    found = attempt_as_jobs(desk, elsewhere, gpus=all_gpus)
    for name, told in found.items():
        assert told["own"] == "entered", told
        assert told["gpus"] == nodes[name]["gpus"], told
        refused = {key: told[key] for key in (*SECRETS, *elsewhere, *ADMINISTRATION)}
        assert not {"entered", 0} & set(refused.values()), refused
        devices = {device["path"] for device in desk.gpuprov.json("show", name)["node"]["devices"]}
        own = [f"/dev/nvidia{minor}" in devices for minor in range(all_gpus)]
        assert own.count(True) == 1, devices
        # OSError: it may open its own, behind which there is no driver
        assert told["opened"] == ["OSError" if mine else "FileNotFoundError" for mine in own], told
        assert told["made"] == ["PermissionError"] * all_gpus, told
    assert {found[desk.controller][path] for path in SECRETS} == {"PermissionError"}, "they are there"


@pytest.mark.parametrize("desk", LXD_WORKERS, indirect=True)
def test_the_broker_starts_with_the_module_of_feature_flags_that_its_image_brings(desk: Desk) -> None:
    started = desk.gpuprov.in_node(desk.controller, "journalctl", "--unit", "rabbitmq-server")
    assert "RabbitMQ 3.10" in started
    assert "list of feature flags found" not in started  # what it says when it compiles one


def ask_page(address: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.mark.parametrize("desk", WORKERS, indirect=True)
def test_the_page_of_the_queue_is_shown_to_who_has_the_password(desk: Desk) -> None:
    failed = desk.submit("--no-project", "--", "false")
    desk("jobs", "wait", failed, expect=1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    page_argv = ("--json", "queue", "page", "--cluster", desk.place.cluster, "--port", str(port))
    with desk.gpuprov.start(*page_argv) as process:
        try:
            assert process.stdout is not None
            told = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
            credentials = base64.b64encode(f"{told['user']}:{told['password']}".encode()).decode()
            assert ask_page(told["address"])[0] == 401
            assert ask_page(told["address"], Authorization="Basic eDp5")[0] == 401
            status, page = ask_page(told["address"], Authorization=f"Basic {credentials}")
            assert (status, desk.controller.encode() in page) == (200, True), page
            assert b"Flower" in page
            _, tasks = ask_page(f"{told['address']}api/tasks?state=FAILURE", Authorization=f"Basic {credentials}")
            assert f"JobFailed('job {failed} failed: exit status 1')" in str(
                [task["exception"] for task in json.loads(tasks).values()]
            )
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    for elsewhere in (desk.place.address(0, 2), desk.place.address(0, 1)):
        with pytest.raises(OSError, match=r"refused|timed out|unreachable|No route"):
            socket.create_connection((elsewhere, 5555), 3)
    for node in (desk.place.node(0), desk.place.node(1)):
        assert told["password"] not in desk.gpuprov.in_node(node, "ps", "axeww")
    desk.gpuprov("exec", desk.controller, "--", "runuser", "-u", "nobody", "--", "cat", FLOWER, expect=1)
    Wait(what="the relays to end", timeout_s=30, fix="look at the node").until(
        lambda: desk.gpuprov("exec", desk.controller, "--", "pgrep", "-f", "gpuwork[.]relay", expect=1).stdout,
        lambda found: not found,
    )


@pytest.mark.parametrize("desk", LXD_WORKERS, indirect=True)
def test_a_cluster_grows_and_shrinks_beside_its_queue(desk: Desk) -> None:
    engine, name = ("--engine", desk.engine), ("--name", desk.place.cluster)
    jobs = [desk.submit("--no-project", "--", "sleep", "15") for _ in range(2)]
    desk.gpuprov("cluster", "up", "-n", "3", *name, *engine, "--no-verify")
    waiting = desk.submit("--no-project", "--count", "3", "--", "sleep", "15")  # others hold the host's lock meanwhile
    refused = desk.gpuprov("cluster", "up", "-n", "1", *name, *engine, "--no-verify", expect=2)
    assert "of work" in refused.stderr
    desk("jobs", "wait", *jobs, waiting)
    desk.gpuprov("cluster", "up", "-n", "2", *name, *engine, "--no-verify")
    assert "nothing to do" in desk.gpuprov("cluster", "plan", *name, *engine).all
