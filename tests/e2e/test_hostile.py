"""Root in a node misbehaves in every way of a table: verbs end in their time, other nodes notice nothing, nodes go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.hostile import ENGINES, KINDS, HostileNode, Kind
from tests.e2e.places import PLACES, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov

PLACE_OF = {
    ("lxd", "plain"): "hostile",
    ("docker", "plain"): "hostile_docker",
    ("lxd", "slurm"): "hostile_slurm",
    ("docker", "slurm"): "hostile_slurm_docker",
}
TRIALS = [
    pytest.param(
        engine, kind, id=f"{engine}-{kind.name}", marks=() if kind.sample and engine == "lxd" else pytest.mark.long
    )
    for engine in ENGINES
    for kind in KINDS
    if engine in kind.engines
]
# On Docker all of the sample at once; tests/contract/test_hostile.py has what its driver reads of hostile nodes.
TAKEN_DOWN = [pytest.param(*pair, marks=pytest.mark.long if pair == ("docker", "slurm") else ()) for pair in PLACE_OF]
ALL_AT_ONCE = {
    "plain": "many kinds at once, when the cluster is taken down",
    "slurm": "Slurm's programs, when the cluster is taken down",
}


def test_the_table_has_forty_kinds_for_each_engine() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    for engine in ENGINES:
        assert sum(engine in kind.engines for kind in KINDS) >= 40


class Hostiles(dict[tuple[str, str], HostileNode]):
    """Clusters of two nodes, the first one hostile, by engine and role; each is made when a test asks for it."""

    def __init__(self, gpuprov: Gpuprov, request: pytest.FixtureRequest) -> None:
        self._gpuprov, self._request = gpuprov, request

    def __missing__(self, key: tuple[str, str]) -> HostileNode:
        engine, role = key
        place = PLACES[PLACE_OF[key]]
        if engine == "docker":
            self._request.getfixturevalue("docker")
        sweep(place)
        spec = self._gpuprov.folder / f"{place.cluster}.yaml"
        spec.write_text(place.spec(count=2, nodes=f"role: {role}", engine=engine))
        self._gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
        names = (place.node(0), place.node(1))
        self[key] = made = HostileNode(
            gpuprov=self._gpuprov, engine=engine, cluster=place.cluster, node=names[0], other=names[1], spec=str(spec)
        )
        made.become_root()
        return made


@pytest.fixture(scope="module")
def hostiles(gpuprov: Gpuprov, request: pytest.FixtureRequest) -> Iterator[Hostiles]:
    """The clusters that tests have asked for; gpuprov itself takes them down as they are."""
    yield Hostiles(gpuprov, request)
    sweep(*(PLACES[module] for module in PLACE_OF.values()))


@pytest.mark.parametrize(("engine", "kind"), TRIALS)
def test_misbehaviour(hostiles: Hostiles, ledger: Ledger, engine: str, kind: Kind) -> None:
    hostile = hostiles[engine, kind.role]
    before = hostile.look_at_other()
    survived = False
    try:
        hostile.misbehave(kind)
        assert hostile.other_is(before)
        survived = True
    finally:
        ledger.add("hostile", engine=engine, misbehaviour=kind.name, survived=survived)


@pytest.mark.parametrize(("engine", "role"), TAKEN_DOWN)
def test_a_cluster_with_a_hostile_node_is_taken_down(
    hostiles: Hostiles, ledger: Ledger, engine: str, role: str
) -> None:
    """Where nobody can tell of jobs, by force."""
    hostile = hostiles[engine, role]
    survived = False
    try:
        for kind in KINDS:
            if engine in kind.engines and kind.role == role and kind.sample:
                hostile.in_node(kind.lines, timeout_s=5)  # where it writes into a FIFO of the kind before, it hangs
        force = ["--force"] if role == "slurm" else []
        hostile.gpuprov("cluster", "down", hostile.cluster, "--yes", "--engine", engine, *force)
        left = hostile.gpuprov.json("list", "--engine", engine)["nodes"]
        assert not [row["name"] for row in left if row["cluster"] == hostile.cluster]
        survived = True
    finally:
        ledger.add("hostile", engine=engine, misbehaviour=ALL_AT_ONCE[role], survived=survived)
