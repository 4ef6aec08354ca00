from __future__ import annotations

import pytest

from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_ROLE, NodeState
from gpuprov.lifecycle.rows import node_row
from gpuprov.shapes.node import NodeLimits

LABELS = {LABEL_CLUSTER: "lab", LABEL_FINGERPRINT: "f", LABEL_ROLE: "slurm"}


@pytest.mark.parametrize(
    ("processes", "work", "health"),
    [
        (None, "idle", "ok"),
        (284, "idle", "ok"),
        (285, "idle", "processes used up (285 of 300): gpuprov stop c001 --force"),
        (300, "down*", "processes used up (300 of 300): gpuprov stop c001 --force"),
        (300, "", "processes used up (300 of 300): gpuprov stop c001 --force"),
        (20, "down*", "Slurm reports down*: gpuprov cluster up"),
    ],
)
def test_a_node_in_which_nothing_more_can_be_started_says_so(processes: int | None, work: str, health: str) -> None:
    limits = NodeLimits(processes=300)
    node = NodeState(name="c001", status="running", labels=LABELS, limits=limits)
    assert node_row(node, work, engine="lxd", processes=processes).health == health
