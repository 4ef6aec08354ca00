"""What `cluster up` suggests next works on the cluster that was made, whatever it is called."""

from __future__ import annotations

import pytest

from gpuprov.cli.cluster import next_steps
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuprov.shapes.nodes import NodeRow

SUBMIT = "gpuprov submit --no-project -- python3 -m smoke_kernels matmul"
SRUN = (
    "gpuprov exec c000 -- srun -N2 hostname",
    "gpuprov exec c000 -- srun --gres=gpu:1 python3 -m smoke_kernels matmul",
)
ALWAYS = ("gpuprov shell c000", "gpuprov cluster status", "gpuprov cluster down")


def steps_of(role: str, **spec: object) -> list[str]:
    rows = [
        NodeRow(
            name=name, host="here", cluster="x", engine="lxd", role=role, status="running", address="",
            private_address="", gpus=(), devices=(), sharing="shared", simulated=True, work="", health="ok", image="",
        )
        for name in ("c000", "c001")
    ]  # fmt: skip
    return next_steps(ClusterSpec(nodes=NodesSpec(role=role), **spec), rows).splitlines()  # type: ignore[arg-type]


def lines(*steps: str) -> list[str]:
    return ["next:", *(f"  {step}" for step in steps)]


@pytest.mark.parametrize(
    ("role", "share", "expected"),
    [
        ("worker", True, (SUBMIT, "gpuprov jobs")),
        ("slurm", True, (*SRUN, SUBMIT, "gpuprov jobs")),
        ("slurm", False, SRUN),
        ("plain", False, ()),
    ],
)
def test_work_is_handed_in_where_the_nodes_share_a_folder(role: str, share: bool, expected: tuple[str, ...]) -> None:
    assert steps_of(role, share=share) == lines(*expected, *ALWAYS)


def test_a_cluster_that_is_not_the_default_one_is_named() -> None:
    assert steps_of("worker", name="two", share=True) == lines(
        "gpuprov submit --cluster two --no-project -- python3 -m smoke_kernels matmul",
        "gpuprov jobs --cluster two",
        "gpuprov shell c000",
        "gpuprov cluster status two",
        "gpuprov cluster down two",
    )
