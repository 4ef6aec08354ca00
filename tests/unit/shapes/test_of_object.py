"""A shape of what gpuprov has observed itself is made without limits: a label that somebody damaged ends no verb."""

from __future__ import annotations

from gpuprov.gpu.allocate import Lease
from gpuprov.shapes.base import of_object, write
from gpuprov.shapes.gpus import Holder


def test_what_was_observed_here_is_told_whatever_it_is() -> None:
    lease = Lease(node="c000", gpus=("GPU-1",), sharing="shared", engine="lxd", cluster="x" * 400)
    assert write(of_object(Holder, lease))["cluster"] == "x" * 400
