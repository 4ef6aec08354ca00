"""What `gate up` says of a policy that leaves no container."""

from __future__ import annotations

import pytest

from gpuprov.shapes.gate_policy import GatePolicy, PolicyRefusals
from gpuprov.stories.gate import find_refused_by_all

RULES = GatePolicy(refuse=PolicyRefusals(namespaces=("pid", "user", "cgroup")))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (None, ("user", "cgroup")),
        (["name=seccomp,profile=default"], ("user", "cgroup")),
        (["name=cgroupns"], ("user",)),
        (["name=userns", "name=cgroupns"], ()),
    ],
)
def test_a_namespace_that_all_containers_share_is_told(options: list[str] | None, found: tuple[str, ...]) -> None:
    assert find_refused_by_all(RULES, {"SecurityOptions": options}) == found
    assert find_refused_by_all(GatePolicy(), {"SecurityOptions": options}) == ()
