"""`gate explain`, with a runtime's folder of the test's own and a made-up daemon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.machine.local import LocalHost
from gpuprov.machine.runtime_program import RuntimeProgram
from gpuprov.runtime.settings import Settings
from gpuprov.shapes.base import encode
from gpuprov.shapes.gate_policy import GatePolicy, PolicyRefusals, PolicyVariables
from gpuprov.spec.spec_error import SpecError
from gpuprov.stories import gate_explain
from gpuprov.stories.gate_explain import explain_start
from tests.unit.runtime.simulated import simulated_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.shapes.gate import GateExplanation

pytestmark = pytest.mark.slow
ANSWERS: dict[str, Any] = {
    "/info": {
        "DefaultRuntime": "gpuprov-default",
        "DockerRootDir": "/var/lib/docker",
        "Runtimes": {"runc": {}, "gpuprov": {}, "gpuprov-default": {}},
    },
    "/images/image/json": {"Config": {"Env": ["NVIDIA_VISIBLE_DEVICES=all"]}},
    "/volumes/evil": {"Options": {"o": "bind", "device": "/etc"}},
}
RULES = GatePolicy(
    touch="everything",
    variables=PolicyVariables(force={"A": "1"}),
    refuse=PolicyRefusals(privileged=True, mounts_outside=("/data",)),
    gpus_per_project=2,
)


@pytest.fixture
def explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., GateExplanation]:
    program = RuntimeProgram(folder=tmp_path / "runtime")
    monkeypatch.setattr(gate_explain, "program_for", lambda _: program)
    monkeypatch.setattr(gate_explain, "require_socket", lambda _: None)
    monkeypatch.setattr(gate_explain, "ask_daemon", lambda _, path: ANSWERS.get(path, {"message": "no such thing"}))

    def one(line: str, rules: GatePolicy | None = RULES) -> GateExplanation:
        program.write(Settings(engines=(), simulation=simulated_host(4).document), runc=Path("/bin/true"), rules=rules)
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        told = explain_start(LocalHost(), ["docker", "run", *line.split()], environment={}, folder=tmp_path)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
        return told

    return one


def steps(told: GateExplanation) -> dict[str, str]:
    return {step.rule: step.what for step in told.steps}


def test_each_rule_that_does_something_is_named(explain: Callable[..., GateExplanation]) -> None:
    told = explain("--gpus 2 -v /data/x:/x image")
    assert (told.runtime, told.touched, told.starts) == ("gpuprov-default", True, True)
    assert steps(told) == {"variables.force": "A", "gpus": "2 SIMULATED GPUs of its own"}
    told = explain("--privileged -v evil:/e -e GPUPROV_GPUS=3 image")
    assert not told.starts
    assert steps(told)["refuse.privileged"] == "every device of the host can be opened, /proc and /sys are open"
    assert steps(told)["refuse.mounts_outside"] == "/var/lib/docker/volumes/evil/_data at /e"
    assert steps(told)["gpus_per_project"] == "asks for 3 GPUs, of 2 at once"


def test_without_a_policy_and_without_a_request_nothing_is_done(explain: Callable[..., GateExplanation]) -> None:
    told = explain("--privileged image", None)
    assert (told.touched, told.starts, told.steps, told.left) == (False, True, (), ())
    assert steps(explain("--runtime gpuprov image", None))["gpus"].startswith(
        "4 SIMULATED GPUs shared with others: GPU-"
    )
    assert "not on this host" in explain("--runtime gpuprov other", None).left[0]
    told = explain("--privileged image", GatePolicy(refuse=PolicyRefusals(privileged=True)))
    assert (told.touched, told.starts) == (False, True)
    told = explain("-e GPUPROV_GPUS=9 image", None)
    assert (told.starts, "fewer than 9" in steps(told)["gpus"]) == (False, True)
    told = explain("--gpus 1 -e GPUPROV_GPUS=2 image")
    assert (told.starts, "two things" in steps(told)["gpus"]) == (False, True)


@pytest.mark.parametrize(
    ("line", "removed"),
    [
        ("image", True),
        ("--rm=false --restart no image", True),
        ("--rm image", False),
        ("--restart on-failure:3 image", False),
        ("--log-driver none image", False),
        ("--runtime runc image", False),
    ],
)
def test_who_is_removed_at_the_end_is_told(
    explain: Callable[..., GateExplanation], line: str, *, removed: bool
) -> None:
    told = steps(explain(line, GatePolicy(touch="everything", remove=True)))
    assert told == ({"remove": "from Docker, 10 s after it has ended"} if removed else {})


def test_another_runtime_is_not_the_gate_s_to_explain(explain: Callable[..., GateExplanation]) -> None:
    told = explain("--runtime runc --privileged image")
    assert (told.passes, told.touched, told.steps) == (False, False, ())


def test_a_runtime_that_is_not_there_is_said_to_be_missing(
    explain: Callable[..., GateExplanation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ANSWERS, "/info", {"DefaultRuntime": "runc", "Runtimes": {"runc": {}}})
    with pytest.raises(HostNotReady, match="no runtime gpuprov"):
        explain("--runtime gpuprov image")


def test_words_that_are_no_text_are_taken_as_they_are(explain: Callable[..., GateExplanation]) -> None:
    told = explain("-v /\udcff:/x -v \udcff:/y -e A\udcff=\udcff --label \udcff \udcff")
    assert not told.starts
    assert encode(told)


def test_a_policy_is_tried_before_there_is_a_gate(
    explain: Callable[..., GateExplanation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explain("image")  # so that there is a program, of which nothing is asked
    monkeypatch.setitem(ANSWERS, "/info", {"DefaultRuntime": "runc", "DockerRootDir": "/var/lib/docker"})
    (tmp_path / "policy.yaml").write_text("schema: gpuprov.gate-policy/v1\nversion: 1\nrefuse: {privileged: true}\n")

    def tried(line: str, policy: str | None) -> GateExplanation:
        words = ["docker", "run", *line.split()]
        return explain_start(LocalHost(), words, environment={}, folder=tmp_path, policy=policy)

    told = tried("--privileged --gpus 1 image", str(tmp_path / "policy.yaml"))
    assert (told.runtime, told.registered, told.passes, told.starts) == ("gpuprov", False, True, False)
    assert steps(told).keys() == {"refuse.privileged", "gpus"}
    assert steps(tried("--privileged --gpus 1 image", "none")) == {"gpus": "1 SIMULATED GPU of its own"}
    assert not tried("--gpus 99 image", "none").starts
    told = tried("--gpus 1 image", None)
    assert (told.runtime, told.registered, told.passes) == ("runc", False, False)
    with pytest.raises(UsageError, match="--gpus two is no number of GPUs"):
        tried("--gpus two image", None)
    with pytest.raises(SpecError):
        tried("image", str(tmp_path / "no-such.yaml"))
