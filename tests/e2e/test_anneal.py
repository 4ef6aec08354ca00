"""Annealing on a real cluster: the known answer of Ackley's function, in parts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

EXAMPLES = Path(__file__).parents[2] / "examples/anneal"
QUICK = {("lxd", "slurm")}


class Annealing:
    """A cluster of two nodes that share a folder."""

    def __init__(self, gpuprov: Gpuprov, place: Place, folder: Path) -> None:
        self.gpuprov, self.place, self.folder = gpuprov, place, folder

    def run(self, model: Path, out: str, *options: str, expect: int = 0) -> dict[str, Any]:
        return self.gpuprov.json(
            *("anneal", "run", str(model), "--conf", str(EXAMPLES / "run.yaml"), "--out", str(self.folder / out)),
            *("--cluster", self.place.cluster, *options),
            expect=expect,
        )


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((engine, role), id=f"{engine}-{role}", marks=[] if (engine, role) in QUICK else [pytest.mark.long])
        for engine in ("lxd", "docker", "incus")
        for role in ("slurm", "worker")
    ],
)
def annealing(
    request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Annealing]:
    engine, role = request.param
    request.getfixturevalue({"lxd": "lxc"}.get(engine, engine))
    spec = gpuprov.folder / f"anneal-{engine}-{role}.yaml"
    spec.write_text(place.spec(engine=engine, share="true", nodes=f"role: {role}"))
    shutil.rmtree(f"/srv/gpuprov/{place.cluster}", ignore_errors=True)  # of a killed run
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    yield Annealing(gpuprov, place, tmp_path_factory.mktemp("anneal"))
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes", "--engine", engine)


def test_the_known_answer_in_two_parts(annealing: Annealing) -> None:
    plot = annealing.folder / "best.svg"
    document = annealing.run(EXAMPLES / "ackley.py", "out", "--nodes", "2", "--plot", str(plot))
    (run,) = document["runs"]
    assert (run["state"], run["errors"], document["exit_code"]) == ("done", 0, 0)
    assert sum(part["chains"] for part in run["parts"]) == 16
    assert {part["node"] for part in run["parts"]} <= {annealing.place.node(0), annealing.place.node(1)}
    with np.load(annealing.folder / "out/ackley/best.npz") as best:
        assert 0 <= best["values"][0] < 0.1
        assert best["values"][0] == run["best"]
    with np.load(annealing.folder / "out/ackley/all.npz") as found:
        assert found["values"].shape == (16,)
    assert ">ackley: best value of 16 chains SIMULATED</text>" in plot.read_text()
    best = json.loads((annealing.folder / "out/ackley/best.json").read_text())
    assert (best["value"], best["chain"]) == (run["best"], run["best_chain"])
    assert max(map(abs, best["state"])) < 0.1


def test_a_model_that_fails_is_told_in_words(annealing: Annealing) -> None:
    model = annealing.folder / "broken.py"
    text = (EXAMPLES / "rastrigin.py").read_text()
    model.write_text(text.replace("MOST = 5.12", "MOST = 1 // 0"))
    document = annealing.run(model, "broken", "--nodes", "1", expect=1)
    (part,) = document["runs"][0]["parts"]
    assert "ZeroDivisionError" in part["reason"]
    assert not (annealing.folder / "broken").exists()
