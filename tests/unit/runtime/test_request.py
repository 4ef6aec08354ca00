"""What a container asks for."""

from __future__ import annotations

from typing import Any

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.gpu.order import resolve_order
from gpuprov.runtime.request import parse_wait, read_request
from tests.unit.runtime.simulated import simulated_host

HOST = simulated_host(4)
UUIDS = [gpu.uuid for gpu in HOST.gpus]
HOOK = {"prestart": [{"path": "/usr/bin/nvidia-container-runtime-hook", "args": ["hook", "prestart"]}]}


def spec(*env: str, hooks: object = None, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return {"process": {"env": list(env)}, "hooks": hooks, "annotations": annotations}


def asked(one: dict[str, Any], *, named: bool = True) -> tuple[int, tuple[int, ...], str] | None:
    """How many, which, and how they are to be held; None if nothing."""
    request = read_request(one, named=named)
    if request is None:
        return None
    lease = resolve_order(request, request.environment, HOST, request.default, node="c")
    return lease.size, tuple(UUIDS.index(uuid) for uuid in lease.wanted), lease.sharing


@pytest.mark.parametrize(
    ("one", "named", "default"),
    [
        (spec(), None, None),
        (spec("HOUDINI_GPU_REQUESTED=1"), (1, (), "exclusive"), (1, (), "exclusive")),
        (spec("HOUDINI_GPU_REQUEST=2"), (2, (), "exclusive"), (2, (), "exclusive")),
        (spec("GPUPROV_GPUS=2"), (2, (), "exclusive"), (2, (), "exclusive")),
        (spec("GPUPROV_GPUS=gpu1"), (1, (1,), "exclusive"), (1, (1,), "exclusive")),
        (spec("GPUPROV_GPUS=1", "GPUPROV_SHARING=shared"), (1, (), "shared"), (1, (), "shared")),
        (spec(annotations={"gpuprov.gpus": "1"}), (1, (), "exclusive"), (1, (), "exclusive")),
        (spec("NVIDIA_VISIBLE_DEVICES=all"), (4, (0, 1, 2, 3), "shared"), None),
        (spec("NVIDIA_VISIBLE_DEVICES=2"), (1, (2,), "shared"), None),
        (spec("NVIDIA_VISIBLE_DEVICES=void"), None, None),
        (spec("NVIDIA_VISIBLE_DEVICES=all", "HOUDINI_GPU_ENABLED=true"),) + ((4, (0, 1, 2, 3), "shared"),) * 2,
        (spec("NVIDIA_VISIBLE_DEVICES=all", "HOUDINI_ENABLED=true"),) + ((4, (0, 1, 2, 3), "shared"),) * 2,
        # what an image sets itself does not stand in the way of what was asked for
        (spec("NVIDIA_VISIBLE_DEVICES=all", "HOUDINI_GPU_REQUESTED=1"),) + ((1, (), "exclusive"),) * 2,
        # as dockerd writes --gpus 2, --gpus device=3, --gpus all and --gpus device=UUID, behind what the image sets
        (spec("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=0,1", hooks=HOOK),) + ((2, (), "exclusive"),) * 2,
        (spec("NVIDIA_VISIBLE_DEVICES=3", hooks=HOOK),) + ((1, (3,), "exclusive"),) * 2,
        (spec("NVIDIA_VISIBLE_DEVICES=all", hooks=HOOK),) + ((4, (0, 1, 2, 3), "shared"),) * 2,
        (spec(f"NVIDIA_VISIBLE_DEVICES={UUIDS[2]}", hooks=HOOK),) + ((1, (2,), "exclusive"),) * 2,
        (spec("A=b\nHOUDINI_GPU_REQUESTED=1"), None, None),
        (spec("A=x=y=z", "HOUDINI_GPU_REQUESTED=1"),) + ((1, (), "exclusive"),) * 2,
        (spec(*(f"V{number}=x" for number in range(10_000)), "GPUPROV_GPUS=1"),) + ((1, (), "exclusive"),) * 2,
    ],
)
def test_requests(one: dict[str, Any], named: object, default: object) -> None:
    assert asked(one) == named
    assert asked(one, named=False) == default


@pytest.mark.parametrize(
    "one",
    [
        spec("HOUDINI_GPU_REQUESTED=two"),
        spec("HOUDINI_GPU_REQUESTED=1", "GPUPROV_GPUS=2"),
        spec("GPUPROV_GPUS=1", annotations={"gpuprov.gpus": "2"}),
        spec("GPUPROV_GPUS=9"),
        spec("GPUPROV_GPUS=GPU-nobody"),
        spec("GPUPROV_GPUS=1", "GPUPROV_SHARING=maybe"),
        spec("GPUPROV_GPUS=1", "GPUPROV_WAIT=soon"),
        spec("GPUPROV_GPUS=1", "GPUPROV_WAIT=25h"),
        spec("NVIDIA_VISIBLE_DEVICES=0,1", "GPUPROV_GPUS=1", hooks=HOOK),
    ],
)
def test_nonsense_and_contradictions_are_refused(one: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        asked(one)


@pytest.mark.parametrize(("text", "seconds"), [(None, None), ("90", 90), ("5m", 300), ("2h", 7200), ("1s", 1)])
def test_a_wait_is_a_number_with_a_unit(text: str | None, seconds: float | None) -> None:
    assert parse_wait(text) == seconds
