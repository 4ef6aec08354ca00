"""Slurm's REST API and its private network on Docker, where a container's process may do less than on LXD."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.waiting import Wait
from tests.e2e.test_slurm_in_full import INTERRUPTED, ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

MORE = "image: {packages: [slurmrestd, slurm-wlm-jwt-plugin]}\nslurm: {rest: true, network: private}\n"
PORT = 26821


@pytest.fixture(scope="module")
def cluster(gpuprov: Gpuprov, place: Place) -> Iterator[str]:
    file = gpuprov.folder / "rest-docker.yaml"
    file.write_text(place.spec(gpus="per_node: 1", share="true", engine="docker") + MORE)
    gpuprov("cluster", "up", "-f", str(file))
    yield place.cluster
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


@pytest.mark.usefixtures("cluster")
def test_slurm_runs_over_the_private_network(gpuprov: Gpuprov, place: Place) -> None:
    shown = gpuprov.in_node(place.node(0), "scontrol", "-o", "show", "node", place.node(1))
    assert f" NodeAddr={place.address(1, 2)} " in shown
    assert sorted(gpuprov.in_node(place.node(0), "srun", "-N2", "hostname").split()) == [place.node(0), place.node(1)]


def test_a_program_on_the_host_submits_a_job(gpuprov: Gpuprov, cluster: str, place: Place) -> None:
    here = ("--cluster", cluster)
    token = gpuprov("token", *here).stdout.strip()
    with gpuprov.start("rest", *here, "--port", str(PORT)) as relay:
        assert relay.stdout is not None
        assert relay.stdout.readline() == f"address: http://127.0.0.1:{PORT}/\n"
        taken = gpuprov("rest", *here, "--port", str(PORT), expect=2)
        assert f"port {PORT} of this host cannot be used for the REST API" in taken.stderr
        job = {"name": "by-rest", "current_working_directory": "/tmp", "environment": {"PATH": "/usr/bin:/bin"}}
        url = f"http://127.0.0.1:{PORT}/slurm/v0.0.38"
        with ask(f"{url}/job/submit", token, {"job": job, "script": "#!/bin/sh\nid -un >/shared/by-rest\n"}) as answer:
            number = json.load(answer)["job_id"]
        wait = Wait(what="the job", timeout_s=60, fix="squeue", interval_s=0.5)
        look = ("squeue", "-h", "-t", "all", "-j", str(number), "-o", "%T")
        wait.until(lambda: gpuprov.in_node(place.node(0), *look).strip(), lambda found: found == "COMPLETED")
        relay.send_signal(signal.SIGINT)
        relay.communicate(timeout=60)
    assert relay.returncode == INTERRUPTED
    assert gpuprov.in_node(place.node(1), "cat", "/shared/by-rest") == "work\n"
