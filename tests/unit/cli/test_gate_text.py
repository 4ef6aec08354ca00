"""What `gate status` and `gate explain` print."""

from __future__ import annotations

from typing import get_args

import pytest

from gpuprov.cli.gate import _explained, _lines
from gpuprov.shapes.base import changed
from gpuprov.shapes.gate import Gate, GateContainer, GateExplanation, GateStep, GpusOption
from gpuprov.shapes.gate_policy import GatePolicy, PolicyMount, PolicyRefusals, PolicyVariables

GATE = Gate(
    host="host",
    socket="/run/docker.sock",
    config="/etc/docker/daemon.json",
    registered=True,
    default=True,
    program="/var/lib/gpuprov/runtime/docker/gpuprov-runtime",
    current=True,
    gpus_option="works",
    policy=GatePolicy(
        touch="everything",
        mounts=(PolicyMount(source="/home", target="/home"),),
        variables=PolicyVariables(set={"LANG": "C.UTF-8"}, force={"TOKEN": "secret"}),
        user="$WHO",
        remove=True,
        refuse=PolicyRefusals(privileged=True, namespaces=("pid", "net"), mounts_outside=("/home", "/data")),
        gpus_per_project=1,
    ),
    policy_fault="",
    containers=(GateContainer(name="train", runtime="gpuprov", status="running"),),
)
EXPLAINED = GateExplanation(
    host="host",
    runtime="gpuprov-default",
    registered=True,
    passes=True,
    touched=True,
    starts=False,
    steps=(GateStep(rule="refuse.devices", what="/dev/fuse", refused=True),),
    left=("which GPUs are free",),
)
WIDTH = 80


def test_status_says_each_rule_of_a_policy_and_no_value_of_a_variable() -> None:
    assert _lines(GATE) == [
        "runtime: registered, and the default",
        "program: /var/lib/gpuprov/runtime/docker/gpuprov-runtime",
        "daemon: /run/docker.sock, /etc/docker/daemon.json",
        "docker run --gpus: works",
        "policy: touches everything",
        "policy: refuses privileged, the host's namespaces (pid, net), mounts of the host outside /home, /data",
        "policy: mounts /home at /home",
        "policy: sets LANG",
        "policy: forces TOKEN",
        "policy: runs as $WHO",
        "policy: removes what has ended",
        "policy: lets each project hold 1 GPU at once",
        "container: train (running): no GPU",
    ]


@pytest.mark.parametrize("option", get_args(GpusOption))
def test_status_says_of_each_state_of_the_option_what_it_is(option: GpusOption) -> None:
    lines = _lines(changed(GATE, gpus_option=option, policy=None, containers=(), registered=False, default=False))
    assert [line for line in lines if len(line) > WIDTH] == []
    assert lines[3].startswith("docker run --gpus: works")
    assert lines[-2:] == ["policy: none", "container: none names the runtime"]
    assert lines[0] == "runtime: not registered: sudo gpuprov gate up"


def test_explain_says_why_a_container_does_not_start() -> None:
    assert _explained(EXPLAINED) == [
        "runtime: gpuprov-default",
        "policy: touches it",
        "refuse.devices: refused: /dev/fuse",
        "not known here: which GPUs are free",
        "result: it is refused",
    ]
    free = changed(EXPLAINED, touched=False, starts=True, steps=(), left=())
    assert _explained(free)[1:] == ["policy: does not touch it", "nothing is changed", "result: it starts"]


def test_explain_says_how_the_gate_sees_what_it_does_not_see() -> None:
    lines = _explained(changed(EXPLAINED, runtime="runc", passes=False, starts=None, steps=(), left=("what it does",)))
    assert lines == [
        "runtime: runc, and not the gate's",
        "not known here: what it does",
        "to have the gate see it: --runtime gpuprov",
        "to have it see all: sudo gpuprov gate up --default",
    ]
    lines = _explained(changed(EXPLAINED, registered=False, passes=False, starts=None, steps=(), left=()))
    assert lines[1] == "to have the gate see it: sudo gpuprov gate up, then --runtime gpuprov"
