"""A cluster is saved on one engine and restored on another: as on another host, its users have other numbers there."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

OWNER = ("runuser", "-u", "work", "--")


@pytest.mark.usefixtures("docker")
def test_a_cluster_moves_with_its_files(gpuprov: Gpuprov, place: Place, tmp_path: Path) -> None:
    spec, archive, node = tmp_path / "spec.yaml", tmp_path / "saved.tar", place.node(0)
    spec.write_text(place.spec(count=1, share="true"))
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    gpuprov.in_node(node, *OWNER, "sh", "-c", "umask 077; echo 42 >/shared/answer; ln -s /etc/shadow /shared/link")
    gpuprov.in_node(node, "sh", "-c", "umask 077; echo root >/shared/of-root")
    said = gpuprov("cluster", "save", str(archive), place.cluster, "--shared").stdout
    assert f"saved cluster {place.cluster} to {archive}: its spec, ssh keys, the files of " in said
    refused = gpuprov("cluster", "restore", str(archive), expect=2).stderr
    assert "exists" in refused
    gpuprov("cluster", "down", place.cluster, "--yes", "--purge")

    gpuprov("cluster", "restore", str(archive), "--engine", "docker")
    assert gpuprov.in_node(node, *OWNER, "cat", "/shared/answer") == "42\n"
    assert gpuprov.in_node(node, "stat", "-c", "%U %a", "/shared/of-root", "/shared/answer") == "root 600\nwork 600\n"
    assert gpuprov.in_node(node, "readlink", "/shared/link") == "/etc/shadow\n"
    assert gpuprov.in_node(node, *OWNER, "srun", "hostname").strip() == node
    gpuprov("cluster", "down", place.cluster, "--yes", "--purge", "--engine", "docker")


def seconds(usage: str) -> dict[str, list[int]]:
    """GPU seconds by the number of a job, from CSV: jobs of a restored cluster begin to count again."""
    found: dict[str, list[int]] = {}
    for row in csv.DictReader(usage.splitlines()):
        found.setdefault(row["job"].partition(" of ")[0], []).append(int(row["gpu_seconds"]))
    return found


def test_figures_of_accounting_move_too(gpuprov: Gpuprov, place: Place, tmp_path: Path) -> None:
    spec, archive, node = tmp_path / "spec.yaml", tmp_path / "saved.tar", place.node(0)
    spec.write_text(f"{place.spec(count=1)}accounting: on\n")
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    gpuprov.in_node(node, *OWNER, "srun", "--gres=gpu:1", "sleep", "2")
    usage = ("usage", "--by", "job", "--csv", "--cluster", place.cluster)
    gpuprov.in_node(node, *OWNER, "sbatch", "--quiet", "--output=/dev/null", "--gres=gpu:1", "--wrap", "sleep 600")
    wait = Wait(what="a job to count", timeout_s=60, fix="squeue", interval_s=1)
    wait.until(lambda: seconds(gpuprov(*usage).stdout), lambda found: sum(found.get("2", [0])) > 0)
    said = gpuprov("cluster", "save", str(archive), place.cluster).stdout
    assert said.endswith(": its spec, ssh keys, GPU hours\n")
    most_s = seconds(gpuprov(*usage).stdout)
    gpuprov("cluster", "down", place.cluster, "--yes", "--force", "--purge")

    gpuprov("cluster", "restore", str(archive))
    restored = seconds(gpuprov(*usage).stdout)
    assert most_s["1"][0] in restored["1"]
    assert min(restored["2"]) <= most_s["2"][0], "it ended for this cluster when that was saved"
    gpuprov.in_node(node, *OWNER, "srun", "--gres=gpu:1", "sleep", "2")
    by_person = ("usage", "--csv", "--cluster", place.cluster)
    wait = Wait(what="the third job to count", timeout_s=60, fix="sacct -a", interval_s=1)
    wait.until(lambda: gpuprov(*by_person).stdout.splitlines()[1].split(",")[3], lambda jobs: jobs == "3")
    gpuprov("cluster", "down", place.cluster, "--yes", "--purge")
