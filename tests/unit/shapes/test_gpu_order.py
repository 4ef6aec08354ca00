"""What a person asks for in GPUs, as a value."""

from __future__ import annotations

from gpuprov.shapes.cluster_spec import GpuSpec
from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.shapes.node_order import NodeOrder
from gpuprov.spec.gpu_order import CRITERIA


def test_each_criterion_is_a_field_that_has_an_option() -> None:
    every = GpuOrder(per_node=1, sharing="shared", memory_gib=1, model="A")
    assert every.criteria.keys() == CRITERIA.keys() == GpuSpec(memory_gib=1, model="A").criteria.keys()
    assert every.said.keys() == {"per_node", "sharing", *CRITERIA}


def test_an_order_has_the_criteria_of_another_where_it_says_nothing() -> None:
    common = GpuSpec(memory_gib=20, model="A100")
    assert GpuOrder(model="H100").with_criteria_of(common) == GpuOrder(memory_gib=20, model="H100")


def test_the_secret_of_a_node_is_not_shown() -> None:
    assert "hidden-from-logs" not in repr(NodeOrder(name="web", cluster="lab", secret="hidden-from-logs"))
