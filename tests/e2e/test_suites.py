"""Nodes of another suite than the default one: their own Python, Slurm and wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.spec.suites import SUITES

if TYPE_CHECKING:
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

SLURM = {"trixie": "slurm 24.11"}


@pytest.mark.long
@pytest.mark.parametrize("engine", ["lxd", "incus", "docker"])
@pytest.mark.parametrize("suite", SLURM)
def test_a_cluster_of_another_suite(
    request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place, suite: str, engine: str
) -> None:
    if engine != "lxd":
        request.getfixturevalue(engine)
    spec = gpuprov.folder / f"{suite}-{engine}.yaml"
    spec.write_text(place.spec(engine=engine) + f"image: {{base: {suite}}}\n")
    gpuprov("cluster", "up", "-f", str(spec))  # verifies them
    names = [place.node(number) for number in range(2)]
    said = gpuprov.in_node(names[0], "sh", "-c", "sinfo --version; python3 --version; . /etc/os-release; echo $ID")
    assert said.splitlines()[0].startswith(SLURM[suite])
    assert said.splitlines()[1].startswith(f"Python {SUITES[suite].python}.")
    assert said.splitlines()[2] == "debian"
    assert sorted(gpuprov.in_node(names[0], "srun", "-N2", "hostname").split()) == names
    assert gpuprov.json("cluster", "up", "-f", str(spec), "--no-verify")["unchanged"] is True
    gpuprov("cluster", "down", place.cluster, "--yes")
