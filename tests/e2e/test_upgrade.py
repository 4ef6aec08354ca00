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

from gpuprov.host.local import SEED_VARIABLE
from tests.e2e.killing import DUMPS

if TYPE_CHECKING:
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

ROOT = Path(__file__).parents[2]
# The last version before planes and hosts. All simulated UUIDs began with the same digits in it, on every machine.
EARLIER = "65a8d5ebe326be620614da7e623702ff5fbb6797"
SEED = "0ddba11a"
SEEDED = f"GPU-{SEED}"
KEPT = ("address", "private_address", "role", "status", "slurm", "health", "devices", "sharing", "simulated")
RUN = 'PYTHONPATH={source} exec {python} -c "from gpuprov.cli.main import main; raise SystemExit(main())" "$@"'


def git(*argv: str) -> subprocess.CompletedProcess[bytes]:
    # A checkout of another user's, as in many CI jobs, is not refused.
    return subprocess.run(["git", "-c", "safe.directory=*", *argv], check=False, capture_output=True, cwd=ROOT)


@pytest.fixture(scope="module")
def earlier(gpuprov: Gpuprov, tmp_path_factory: pytest.TempPathFactory) -> Gpuprov:
    """The program as it was, with what is installed for this one."""
    packed = git("archive", EARLIER)
    if packed.returncode != 0:
        lack = f"commit {EARLIER} is not here (git fetch --unshallow): {packed.stderr.decode()}"
        whole = git("rev-parse", "--is-shallow-repository").stdout == b"false\n"
        if whole and os.environ.get("CI"):
            pytest.fail(lack)
        pytest.skip(lack)  # a shallow clone, or no clone at all: the summary says so
    folder = tmp_path_factory.mktemp("earlier")
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


@pytest.mark.parametrize("engine", ["lxd", pytest.param("docker", marks=pytest.mark.long)])
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
    uuids = {held["node"]: row["uuid"] for row in gpuprov.json("gpus")["gpus"] for held in row["holders"]}
    for name, row in was.items():
        (before,) = row["gpus"]
        assert uuids[name] == SEEDED + before[len(SEEDED) :] != before, "the same GPU, by the UUID that it has now"
    bridges = [f"{place.mark}{number}" for number in range(2 if engine == "lxd" else 1)]
    lacking = [
        *(f"isolate network {bridge} from other clusters" for bridge in bridges),
        *(f"repair node {name}: gpuprov.gpu-types unset instead of h100" for name in names[:2]),
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
