"""A cluster over hosts brought to a state for Ansible: changed where needed, never twice, never in check mode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import HostNotReady, PartDone
from gpuprov.lifecycle.cluster_order import ClusterOrder
from gpuprov.stories.ensure_cluster import ensure_cluster
from tests.unit.cli.test_spanning import lab

if TYPE_CHECKING:
    from gpuprov.lifecycle.before_after import BeforeAfter
    from gpuprov.stories.ensure_cluster import ClusterGoal
    from tests.unit.cli.test_spanning import Typing

pytestmark = pytest.mark.slow

__all__ = ["lab"]

ALL = ["c000", "c001", "c002", "c003"]


def ensure(lab: Typing, goal: ClusterGoal = "present", *, check: bool = False, **order: Any) -> BeforeAfter:
    return ensure_cluster(lab.hosts.fleet(), ClusterOrder(**order), goal, check=check)


def names(found: BeforeAfter) -> tuple[list[str], list[str]]:
    return [row.name for row in found.before], [row.name for row in found.after]


def test_it_is_made_once_grown_and_removed(lab: Typing) -> None:
    file = Path(lab.file)
    planned = ensure(lab, file=file, check=True)
    assert any("hinton: create node c003" in line for line in planned.changed)
    assert not any(world.engine.nodes for world in lab.hosts.worlds.values())
    assert names(ensure(lab, file=file)) == ([], ALL)
    again = ensure(lab, file=file)
    assert again.changed == ()
    assert names(again) == (ALL, ALL)
    assert names(ensure(lab, count=5)) == (ALL, [*ALL, "c004"])
    gone = ensure(lab, "absent", check=True)
    assert "hinton: removed node c003" in gone.changed
    assert names(ensure(lab, "absent")) == ([*ALL, "c004"], [])
    with pytest.raises(HostNotReady, match="lxd is not on this host"):
        ensure(lab, "absent")  # then it is a matter of this machine, which has no engine
    assert ensure(lab, "absent", file=file).changed == ()


def test_what_spans_no_hosts_is_left_to_this_machine(lab: Typing, tmp_path: Path) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    alone = tmp_path / "alone.yaml"
    alone.write_text("version: gpuprov/v1\nnodes: {count: 1}\n")
    lab.hosts.asked.clear()
    for order in ({"file": alone}, {"engine": "lxd"}):
        with pytest.raises(HostNotReady, match="lxd is not installed"):
            ensure(lab, **order)
    assert lab.hosts.asked == []


@pytest.mark.parametrize("goal", ["present", "absent"])
def test_a_host_that_is_away_fails_it_after_the_others_did_their_part(lab: Typing, goal: ClusterGoal) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.away = {"hinton"}
    with pytest.raises(PartDone, match="hinton"):
        ensure(lab, goal, count=6)
    assert set(lab.hosts.worlds["hoff"].engine.nodes) == (
        {"c000", "c001", "c004", "c005"} if goal == "present" else set()
    )


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("away", [{"hinton"}, {"hoff", "hinton"}])
def test_a_new_cluster_needs_all_hosts_of_its_file(lab: Typing, away: set[str], *, check: bool) -> None:
    """As `cluster up -f` says it, which a user may run next."""
    lab.hosts.away = away
    with pytest.raises(HostNotReady, match="nothing was changed: a new cluster needs all its hosts") as told:
        ensure(lab, file=Path(lab.file), check=check)
    assert told.value.fix in ("ssh hoff", "ssh hinton")
    assert [host for host, _ in lab.hosts.asked if host in away] == sorted(away, reverse=True), "each was asked once"
    lab.type("cluster", "up", "-f", lab.file, "--no-verify", expect=told.value.exit_code)
    assert told.value.what in lab.errors


def test_nothing_is_removed_by_a_file_while_a_host_that_may_have_some_is_away(lab: Typing) -> None:
    lab.hosts.away = {"hinton"}
    with pytest.raises(PartDone, match="hosts that may have the cluster lab do not answer: hinton") as told:
        ensure(lab, "absent", file=Path(lab.file))
    assert told.value.fix == "ssh hinton", "a file that names hosts means no cluster of this machine alone"
