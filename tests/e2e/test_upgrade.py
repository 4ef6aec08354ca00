"""A cluster that an earlier version made is this version's: found, isolated, verified, grown, taken down."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.machine.local import SEED_VARIABLE
from tests.e2e.killing import DUMPS
from tests.e2e.places import EVERY_GPU

if TYPE_CHECKING:
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

ROOT = Path(__file__).parents[2]
# The last version before roles and hosts. All simulated UUIDs began with the same digits in it, on every machine.
EARLIER = "65a8d5ebe326be620614da7e623702ff5fbb6797"
SEED = "0ddba11a"
SEEDED = f"GPU-{SEED}"
KEPT = ("address", "private_address", "role", "status", "slurm", "devices", "sharing", "simulated")
# The last version before nodes recorded what is in their image.
BEFORE = "5e52b19d"
UNKNOWN = "old image: made by an earlier gpuprov, which did not record what is in it"
STARTED = "date -d @$(stat -c %Y /proc/1) +%s"
RUN = 'PYTHONPATH={source} exec {python} -c "from gpuprov.cli.main import main; raise SystemExit(main())" "$@"'


def git(*argv: str) -> subprocess.CompletedProcess[bytes]:
    # A checkout of another user's, as in many CI jobs, is not refused.
    return subprocess.run(["git", "-c", "safe.directory=*", *argv], check=False, capture_output=True, cwd=ROOT)


@pytest.fixture(scope="module")
def earlier(gpuprov: Gpuprov, tmp_path_factory: pytest.TempPathFactory) -> Gpuprov:
    return program_of(EARLIER, gpuprov, tmp_path_factory.mktemp("earlier"))


@pytest.fixture(scope="module")
def before(gpuprov: Gpuprov, tmp_path_factory: pytest.TempPathFactory) -> Gpuprov:
    return program_of(BEFORE, gpuprov, tmp_path_factory.mktemp("before"))


def program_of(commit: str, gpuprov: Gpuprov, folder: Path) -> Gpuprov:
    """The program as it was, with what is installed for this one."""
    packed = git("archive", commit)
    if packed.returncode != 0:
        lack = f"commit {commit} is not here (git fetch --unshallow): {packed.stderr.decode()}"
        whole = git("rev-parse", "--is-shallow-repository").stdout == b"false\n"
        if whole and os.environ.get("CI"):
            pytest.fail(lack)
        pytest.skip(lack)  # a shallow clone, or no clone at all: the summary says so
    source = folder / "source"
    source.mkdir()
    subprocess.run(["tar", "-x"], input=packed.stdout, check=True, cwd=source)
    program = folder / "gpuprov"
    line = RUN.format(source=shlex.quote(str(source)), python=shlex.quote(sys.executable))
    program.write_text(f"#!/bin/sh\n{line}\n")
    program.chmod(0o755)
    where = "import gpuprov; print(gpuprov.__file__)"
    environment = {**gpuprov.environment, "PYTHONPATH": str(source)}
    found = subprocess.run([sys.executable, "-c", where], check=True, capture_output=True, cwd=folder, env=environment)
    assert Path(found.stdout.decode().strip()).is_relative_to(source), "not the program that is installed"
    return replace(gpuprov, program=program)


# Variables reached fewer ways in, Slurm knew no types, ended nothing of what jobs left, and forgot ended jobs sooner.
RENEWED = (
    "/etc/gpuprov/environment",
    "/etc/profile.d/gpuprov.sh",
    "/etc/ssh/sshd_config.d/gpuprov-environment.conf",
    "/etc/slurm/epilog",
    "/etc/slurm/task-prolog",
    "/etc/slurm/slurm.conf",
    "/etc/slurm/gres.conf",
)


@pytest.mark.long  # the next one begins with such a cluster, too
@pytest.mark.parametrize("engine", ["lxd", "docker"])
def test_a_cluster_of_an_earlier_version(
    request: pytest.FixtureRequest, gpuprov: Gpuprov, earlier: Gpuprov, place: Place, tmp_path: Path, engine: str
) -> None:
    if engine == "docker":
        request.getfixturevalue("docker")
    gpuprov = replace(gpuprov, environment={**gpuprov.environment, SEED_VARIABLE: SEED})
    path = tmp_path / "spec.yaml"
    path.write_text(place.spec(engine=engine, share=""))  # a key that it did not know
    up = ("cluster", "up", "-f", str(path))
    names = [place.node(number) for number in range(3)]

    earlier(*up, "--no-verify")
    was = {row["name"]: row for row in earlier.json("cluster", "status", place.cluster)["nodes"]}
    assert list(was) == names[:2]

    listed = [node for node in gpuprov.json("list", "--engine", engine)["nodes"] if node["cluster"] == place.cluster]
    assert [(node["name"], node["status"]) for node in listed] == [(name, "running") for name in names[:2]]
    for row in gpuprov.json("cluster", "status", place.cluster)["nodes"]:
        assert {key: row[key] for key in KEPT} == {key: was[row["name"]][key] for key in KEPT}
        assert row["health"] == UNKNOWN
    uuids = {held["node"]: row["uuid"] for row in gpuprov.json("gpus")["gpus"] for held in row["holders"]}
    for name, row in was.items():
        (before,) = row["gpus"]
        assert uuids[name] == SEEDED + before[len(SEEDED) :] != before, "the same GPU, by the UUID that it has now"
    bridges = [f"{place.mark}{number}" for number in range(2 if engine == "lxd" else 1)]
    lacking = [
        *(f"isolate network {bridge} from other clusters" for bridge in bridges),
        *(f"repair node {name}: gpuprov.gpu-types h100 (until now unset)" for name in names[:2]),
        f"renew {', '.join(RENEWED)} on {place.mark}[000-001]",
    ]
    assert gpuprov.json("cluster", "plan", "-f", str(path))["plan"] == lacking
    assert gpuprov.json(*up, "--no-verify")["changed"] == lacking
    assert gpuprov.json(*up, "--no-verify")["unchanged"] is True
    assert gpuprov.json("verify", "--cluster", place.cluster)["passed"] is True

    changed = gpuprov.json(*up, "-n", "3", "--no-verify")["changed"]
    assert [line.split()[2] for line in changed if line.startswith("create node")] == names[2:]
    assert not [line for line in changed if line.startswith(("repair", "start", "remove"))]
    states = {row["name"]: row["slurm"] for row in gpuprov.json("cluster", "status", place.cluster)["nodes"]}
    assert states == dict.fromkeys(names, "idle")
    assert sorted(gpuprov.in_node(names[0], "srun", "-N3", "hostname").split()) == names
    assert gpuprov.json("cluster", "plan", "-f", str(path), "-n", "3")["plan"] == []

    gpuprov("cluster", "down", place.cluster, "--yes")  # the image stays, for the next run of these tests
    assert DUMPS[engine](place.cluster, place.mark, gpuprov.folder / "data").parts == {}


def test_an_upgrade_under_jobs_and_new_images_with_the_queue_kept(
    request: pytest.FixtureRequest, gpuprov: Gpuprov, before: Gpuprov, place: Place, tmp_path: Path
) -> None:
    """Nothing restarts for a new version; `--renew` replaces the controller, and its queue goes on."""
    path = tmp_path / "spec.yaml"
    path.write_text(place.spec(share="true", gpus=EVERY_GPU))
    up = ("cluster", "up", "-f", str(path), "--no-verify")
    head, other = (place.node(number) for number in range(2))
    request.addfinalizer(lambda: gpuprov("cluster", "down", place.cluster, "--yes", "--purge", "--force"))

    before(*up)
    running = before.in_node(head, "sbatch", "--parsable", "-w", other, "--wrap", "sleep 600").strip()
    held = before.in_node(head, "sbatch", "--parsable", "--hold", "--wrap", "echo it ran >/shared/it").strip()
    started = {name: before.in_node(name, "sh", "-c", STARTED) for name in (head, other)}

    status = gpuprov.json("cluster", "status", place.cluster)["nodes"]
    assert [(row["name"], row["status"], row["health"]) for row in status] == [
        (name, "running", UNKNOWN) for name in (head, other)
    ]
    plan = gpuprov.json("cluster", "plan", "-f", str(path))
    goes_on = ("renew /", "repair node ", "isolate the host from nodes ")
    assert not [line for line in plan["plan"] if not line.startswith(goes_on)], "nothing restarts"
    assert len(plan["older"]) == 1
    assert sorted(gpuprov.json(*up)["changed"]) == sorted(plan["plan"])
    assert gpuprov.json(*up)["unchanged"] is True
    assert {name: gpuprov.in_node(name, "sh", "-c", STARTED) for name in (head, other)} == started
    jobs = gpuprov.in_node(head, "squeue", "--noheader", "--format=%i %T").split("\n")
    assert sorted(filter(None, jobs)) == sorted([f"{running} RUNNING", f"{held} PENDING"])
    assert gpuprov.in_node(head, "scontrol", "show", "job", running).count("Restarts=0") == 1
    assert gpuprov.in_node(head, "srun", "-w", head, "hostname") == f"{head}\n"

    renew = ("cluster", "up", "--name", place.cluster, "--renew", "--no-verify")
    assert "repeat the command with --yes" in gpuprov(*renew, expect=2).stderr
    refused = gpuprov(*renew, "--yes", "--drain", "2s", expect=6)
    assert f"job {running}" in refused.stderr, "it is on the node that comes first"
    gpuprov.in_node(head, "scancel", running)
    changed = gpuprov.json(*renew, "--yes")["changed"]
    assert changed == [f"replace node {other}", f"replace node {head}"]
    rows = gpuprov.json("cluster", "status", place.cluster)["nodes"]
    assert [(row["name"], row["slurm"], row["health"]) for row in rows] == [
        (name, "idle", "ok") for name in (head, other)
    ]
    assert gpuprov.in_node(head, "squeue", "--noheader", "--format=%i %T").split() == [held, "PENDING"]
    gpuprov.in_node(head, "scontrol", "release", held)
    asked = ["sh", "-c", "for _ in $(seq 30); do cat /shared/it 2>/dev/null && break; sleep 1; done"]
    assert gpuprov.in_node(other, *asked) == "it ran\n"
    assert gpuprov.json(*renew, "--yes")["unchanged"] is True
