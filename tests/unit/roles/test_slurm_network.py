"""The network of Slurm's daemons: the spec chooses it, and each of its nodes has to be there."""

from __future__ import annotations

import json

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.roles.crew import Crew
from gpuprov.roles.registry import check_spec
from gpuprov.roles.slurm.files import controller_address
from gpuprov.roles.slurm.network import refuse_apart
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec, SlurmSpec
from gpuprov.shapes.whole import Member
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.spec_error import SpecError

PRIVATE = ClusterSpec(name="lab", slurm=SlurmSpec(network="private"))
BOTH = Member(name="c000", address="10.0.3.2", private_address="10.0.5.1", role="slurm")
NAT = Member(name="c001", address="10.0.3.3", private_address="", role="slurm")


def test_a_spec_that_does_not_say_it_is_recorded_as_before() -> None:
    assert "network" not in json.loads(dump_spec(ClusterSpec())).get("slurm", {})
    assert load_spec_json(dump_spec(PRIVATE), cluster="lab") == PRIVATE


def test_slurmdbd_is_reached_there_too() -> None:
    assert controller_address(PRIVATE, [BOTH, NAT]) == "10.0.5.1"
    assert controller_address(ClusterSpec(), [BOTH, NAT]) == "10.0.3.2"


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="c001 cannot be in Slurm without the private network"):
        refuse_apart(Crew(spec=PRIVATE, members=(BOTH, NAT)))
    refuse_apart(Crew(spec=ClusterSpec(), members=(BOTH, NAT)))
    refuse_apart(Crew(spec=PRIVATE, members=(BOTH,)))


def test_nodes_of_another_role_have_none() -> None:
    with pytest.raises(SpecError, match=r"slurm\.network: nodes with the role worker have no Slurm"):
        check_spec(ClusterSpec(nodes=NodesSpec(role="worker"), slurm=SlurmSpec(network="private")))
