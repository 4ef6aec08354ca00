"""A CUDA program on a real cluster without a GPU: built in a node, run by jobs, and a worker's node that is lost."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.programs import CUDA, LAUNCH, write_program, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

ROOT = Path(__file__).parents[2]
KMEANS = ROOT / "examples/kmeans"
SLOW = CUDA.replace("    result->rows +=", "    usleep(200000);\n    result->rows +=").replace(
    "#include <cuda_runtime.h>", "#include <cuda_runtime.h>\n#include <unistd.h>"
)
# Kills worker 1 once it has a program's process: its job begins again by itself, as those of lost nodes do.
KILL = """
import os, pathlib
lines = {}
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    try:
        lines[int(path.parent.name)] = path.read_text().split("\\0")
    except OSError:
        continue
works = any("gpuwork.programs.inside" in " ".join(words) for words in lines.values())
for pid, words in lines.items():
    if works and "gpuwork.programs" in words and words[-4:-2] == ["work", words[-3]] and words[-2] == "1":
        os.kill(pid, 9)
        print("killed")
"""


class Programs:
    """A cluster of two nodes whose image has the toolkit."""

    def __init__(self, gpuprov: Gpuprov, place: Place, engine: str) -> None:
        self.gpuprov, self.place, self.engine = gpuprov, place, engine

    def __call__(self, verb: str, *options: str) -> Finished:
        return self.gpuprov("program", verb, *options, "--cluster", self.place.cluster)

    def document(self, verb: str, *options: str) -> dict[str, Any]:
        found = self.gpuprov.json("program", verb, *options, "--cluster", self.place.cluster)
        assert isinstance(found, dict)
        return found


@pytest.fixture(
    scope="module",
    params=[
        ("lxd", "slurm"),
        *(
            pytest.param(case, marks=pytest.mark.long)
            for case in (
                *(("lxd", "worker"), ("docker", "slurm"), ("docker", "worker")),
                *(("incus", "slurm"), ("incus", "worker")),
            )
        ),
    ],
    ids="-".join,
)
def programs(request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place) -> Iterator[Programs]:
    engine, role = request.param
    request.getfixturevalue({"lxd": "lxc"}.get(engine, engine))
    spec = gpuprov.folder / f"programs-{engine}-{role}.yaml"
    spec.write_text(f"{place.spec(engine=engine, share='true', nodes=f'role: {role}')}image: {{toolkit: true}}\n")
    shutil.rmtree(f"/srv/gpuprov/{place.cluster}", ignore_errors=True)  # of a killed run
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    yield Programs(gpuprov, place, engine)
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes", "--engine", engine)


def test_kmeans_from_files_to_its_chart(programs: Programs, tmp_path: Path) -> None:
    document = programs.document(
        *("run", str(KMEANS / "program"), "--data", str(KMEANS / "points.csv"), "--set", "clusters=3"),
        *("--workers", "2", "--svg", str(tmp_path / "k.svg")),
    )["result"]
    assert sum(cluster["rows"] for cluster in document["result"]["clusters"]) == 300
    assert {worker["node"] for worker in document["workers"]} == {programs.place.node(0), programs.place.node(1)}
    drawn = (tmp_path / "k.svg").read_text()
    assert ">centroids</text>" in drawn
    assert drawn.count("<use ") >= 303, "a mark for each point and centroid"
    (row,) = programs.document("list")["programs"]
    assert (row["name"], row["built_for"]) == ("kmeans", ["standin"])
    store = Path("/srv/gpuprov") / programs.place.cluster / "programs"
    assert [*store.glob(".runs/*/key.pem")] == []
    programs("rm", row["hash"][:12])
    assert programs.document("list")["programs"] == []


def test_a_kernel_without_a_gpu_is_refused_by_name(programs: Programs, tmp_path: Path) -> None:
    program = write_program(tmp_path / "p", cuda=CUDA + LAUNCH)
    write_table(tmp_path / "t.csv", 9, 2, seed=1)
    argv = ("run", str(program), "--data", str(tmp_path / "t.csv"), "--cluster", programs.place.cluster)
    finished = programs.gpuprov("program", *argv, expect=1)
    assert "add_rows: this kernel is launched, but there is no GPU here" in finished.stderr


@pytest.mark.long
def test_a_worker_that_is_killed_is_replaced(programs: Programs, tmp_path: Path) -> None:
    program = write_program(tmp_path / "p", cuda=SLOW)
    sums = write_table(tmp_path / "t.csv", 17, 3, seed=2)
    argv = ("run", str(program), "--data", str(tmp_path / "t.csv"), "--workers", "2", "--set", "max_iterations=60")
    run = programs.gpuprov.start("--json", "--verbose", "program", *argv, "--cluster", programs.place.cluster)
    try:
        assert run.stderr is not None
        assert any(re.search(r"[1-9]\d* iterations", line) for line in run.stderr), "until its rounds have begun"
        nodes = [programs.place.node(number) for number in (0, 1)]
        killed = "".join(programs.gpuprov.in_node(node, "python3", "-c", KILL) for node in nodes)
        out, err = run.communicate(timeout=300)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 0, err
    assert killed.split() == ["killed"]
    document = json.loads(out)["result"]
    assert (document["result"]["state"]["sums"], document["iterations"]) == (sums, 60)
    assert document["moved"] >= 1


def test_hardware_of_the_nodes(programs: Programs) -> None:
    document = programs.gpuprov.json("hardware", "--cluster", programs.place.cluster)
    assert isinstance(document, dict)
    assert [one["node"] for one in document["nodes"]] == [programs.place.node(0), programs.place.node(1)]
    assert all(one["hardware"]["threads"] >= 1 for one in document["nodes"])
