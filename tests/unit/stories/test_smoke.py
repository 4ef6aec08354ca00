from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, TimedOut, UsageError
from gpuprov.drivers.base import ExecResult, NodeState
from gpuprov.gpu.observe import observe
from gpuprov.stories import smoke
from gpuprov.stories.smoke import smoke_local, smoke_nodes
from gpuprov.verify.smoke_result import SmokeOrder
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.drivers.base import Driver
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.shapes.smoke_run import KernelName, SmokeResult
    from tests.conftest import Recording

FACTS = Path(__file__).parents[1] / "verify" / "data" / "simulated.json"
REAL = Path(__file__).parents[1] / "verify" / "data" / "real.json"
UUID = "GPU-51515151-5151-4151-8151-000000000000"
ALL = ("--all-devices", f"--stand-for={UUID}")


def document(kernel: str = "matmul", source: Path = FACTS) -> dict[str, Any]:
    """What a node of `verify`'s own test data printed, cut down to one kernel."""
    found: dict[str, Any] = json.loads(json.loads(source.read_text())["kernels"]["stdout"])
    found["results"] = [result for result in found["results"] if result["kernel"] == kernel]
    return found


def here(kernel: str = "matmul") -> dict[str, Any]:
    """What the simulator prints on this machine."""
    text = json.dumps(document(kernel))
    found: dict[str, Any] = json.loads(text.replace(UUID, "local"))
    return found


def answer(found: dict[str, Any], exit_code: int = 0, stderr: str = "") -> ExecResult:
    return ExecResult(exit_code=exit_code, stdout=json.dumps(found), stderr=stderr)


def refusal(what: str, evidence: str, exit_code: int) -> ExecResult:
    error = {"what": what, "evidence": evidence, "remedy": "python3 -m pip install numba-cuda"}
    empty = {**document(), "results": [], "passed": False, "simulated": False, "device": None, "error": error}
    return answer(empty, exit_code)


def node(name: str, status: str = "running", **labels: str) -> NodeState:
    own = {"gpuprov.cluster": "lab", "gpuprov.access": "simulated", "gpuprov.gpus": UUID, **labels}
    return NodeState(name=name, status=status, labels=own)  # type: ignore[arg-type]


@dataclass
class Engine:
    """Nodes that answer as healthy simulated ones do, unless told otherwise."""

    nodes: list[NodeState]
    answers: dict[str, Callable[[], ExecResult]] = field(default_factory=dict)
    asked: list[tuple[str, list[str], dict[str, str], float | None]] = field(default_factory=list)

    def list_nodes(self) -> list[NodeState]:
        return self.nodes

    def list_networks(self) -> list[NetworkState]:
        return []

    def run(
        self, name: str, argv: Sequence[str], *, environment: Mapping[str, str], timeout_s: float | None
    ) -> ExecResult:
        self.asked.append((name, list(argv), dict(environment), timeout_s))
        return self.answers[name]() if name in self.answers else answer(document(argv[3]))


def run(
    engine: Engine, recording: Recording, *nodes: str, kernel: KernelName = "matmul", size: str | None = None
) -> dict[str, SmokeResult]:
    order = SmokeOrder(kernel=kernel, size=size)
    found = smoke_nodes(cast("Driver", engine), "lab", order, nodes=nodes or None, reporter=recording)
    return {result.place: result for result in found}


@pytest.mark.parametrize("kernel", ["matmul", "anneal", "membw"])
def test_it_runs_in_every_running_node_that_holds_a_gpu(recording: Recording, kernel: KernelName) -> None:
    others = [node("c002", "stopped"), node("c003", **{"gpuprov.gpus": ""}), node("x", **{"gpuprov.cluster": "other"})]
    engine = Engine([node("c000"), node("c001"), *others])
    found = run(engine, recording, kernel=kernel)
    assert {name: (result.verdict, result.simulated) for name, result in found.items()} == {
        "c000": ("pass", True),
        "c001": ("pass", True),
    }
    assert "SIMULATED" in found["c000"].evidence
    assert f"node c001 {kernel} runs" in recording.lines
    assert "node c001 pass (SIMULATED)" in recording.lines


def test_size_seconds_and_simulator_are_handed_on(recording: Recording) -> None:
    engine = Engine([node("c000")])
    order = SmokeOrder(kernel="matmul", size="-1", seconds=2.5)
    smoke_nodes(cast("Driver", engine), "lab", order, nodes=["c000", "c000"], reporter=recording)
    ((name, argv, environment, timeout_s),) = engine.asked
    assert (name, argv) == (
        "c000",
        ["python3", "-m", "smoke_kernels", "matmul", "--size=-1", "--seconds=2.5", *ALL, "--json"],
    )
    assert environment == {"NUMBA_ENABLE_CUDASIM": "1"}
    assert timeout_s == 302.5


def test_a_real_node_is_not_simulated(recording: Recording) -> None:
    real = document(source=REAL)
    labels = {"gpuprov.access": "raw", "gpuprov.gpus": ",".join(real["device"]["visible"])}
    engine = Engine([node("c000", **labels)], {"c000": lambda: answer(real)})
    result = run(engine, recording)["c000"]
    assert (result.verdict, result.simulated) == ("pass", False)
    assert engine.asked[0][2] == {}
    engine.answers["c000"] = lambda: answer(document())
    result = run(engine, recording)["c000"]
    assert result.verdict == "fail"
    assert "the kernels ran on the simulator" in result.evidence


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["c009"], "has no node c009"),
        (["c000", "x"], "has no node x"),
        (["c002"], "c002 is not running"),
        (["c003"], "no GPU"),
    ],
)
def test_nodes_that_cannot_be_asked_are_refused_before_any_runs(
    recording: Recording, names: list[str], what: str
) -> None:
    others = [node("c002", "stopped"), node("c003", **{"gpuprov.gpus": ""}), node("x", **{"gpuprov.cluster": "other"})]
    engine = Engine([node("c000"), *others])
    with pytest.raises(UsageError, match=what) as caught:
        run(engine, recording, *names)
    assert caught.value.evidence
    assert caught.value.fix.removeprefix("choose a node that holds a GPU: ").startswith("gpuprov ")
    assert engine.asked == []


@pytest.mark.parametrize(
    ("nodes", "says"),
    [([], "has no nodes"), ([node("c000", "stopped")], "no running node of the cluster lab holds a GPU")],
)
def test_a_cluster_in_which_nothing_can_run_is_refused(recording: Recording, nodes: list[NodeState], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run(Engine(nodes), recording)


def test_a_size_that_the_kernel_refuses_is_a_usage_error_with_one_that_works(recording: Recording) -> None:
    engine = Engine([node("c000")], {"c000": lambda: refusal("anneal does not support size 63", "powers of two", 2)})
    with pytest.raises(UsageError, match="does not support size 63") as caught:
        run(engine, recording, kernel="anneal", size="63")
    assert caught.value.fix == "gpuprov smoke anneal c000 --size 64"


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e9])
def test_senseless_seconds_are_refused(recording: Recording, seconds: float) -> None:
    engine = Engine([node("c000")])
    with pytest.raises(UsageError, match="cannot run for"):
        smoke_nodes(
            cast("Driver", engine), "lab", SmokeOrder(kernel="membw", seconds=seconds), nodes=None, reporter=recording
        )
    assert engine.asked == []


@pytest.mark.parametrize(
    ("said", "evidence"),
    [
        (
            ExecResult(exit_code=1, stdout="", stderr="/usr/bin/python3: No module named smoke_kernels"),
            "the image cannot run",
        ),
        (refusal("numba-cuda cannot be imported", "ModuleNotFoundError", 3), "the image cannot run"),
        (answer({**document(), "results": [], "error": None}), "the kernel did not run"),
        (answer({"schema": "gpuprov.smoke/v1"}), "is malformed"),
        (answer({**document(), "error": "x"}, exit_code=2), "is malformed"),
        (answer({**document(), "results": [3]}), "is malformed"),
        (answer(document(), exit_code=1), "exited with 1"),
    ],
)
def test_an_answer_that_proves_nothing_is_unknown(recording: Recording, said: ExecResult, evidence: str) -> None:
    result = run(Engine([node("c000")], {"c000": lambda: said}), recording)["c000"]
    assert result.verdict == "unknown"
    assert evidence in result.evidence
    assert result.fix.startswith("gpuprov ")


def test_a_wrong_product_fails(recording: Recording) -> None:
    wrong = document()
    wrong["passed"] = wrong["results"][0]["passed"] = False
    wrong["results"][0]["proof"]["checks"][0].update(passed=False, evidence="0 of 2 runs gave it")
    result = run(Engine([node("c000")], {"c000": lambda: answer(wrong, 1)}), recording)["c000"]
    assert (result.verdict, result.document) == ("fail", wrong)
    assert "0 of 2 runs gave it" in result.evidence


@pytest.mark.parametrize(
    "error",
    [
        TimedOut("too long", evidence="300 s", fix="gpuprov shell c000"),
        EngineError("it is gone", evidence="x", fix="gpuprov list"),
    ],
)
def test_a_node_that_does_not_answer_is_unknown_and_the_others_go_on(recording: Recording, error: GpuprovError) -> None:
    def fail() -> ExecResult:
        raise error

    found = run(Engine([node("c000"), node("c001")], {"c000": fail}), recording)
    assert (found["c000"].verdict, found["c000"].fix) == ("unknown", error.fix)
    assert found["c001"].verdict == "pass"


def test_nodes_run_side_by_side(recording: Recording) -> None:
    both = threading.Barrier(2, timeout=10)

    def wait() -> ExecResult:
        both.wait()
        return answer(document())

    run(Engine([node("c000"), node("c001")], {"c000": wait, "c001": wait}), recording)
    assert not both.broken


@dataclass
class Python:
    """An interpreter that prints the given and remembers its environment, as an executable file."""

    path: Path

    def says(self, text: str, exit_code: int = 0) -> str:
        self.path.with_suffix(".out").write_text(text)
        folder = self.path.with_suffix("")
        self.path.write_text(
            f'#!/bin/sh\necho $NUMBA_ENABLE_CUDASIM $PWD "$@" > {folder}.asked\ncat {folder}.out\nexit {exit_code}\n'
        )
        self.path.chmod(0o755)
        return str(self.path)

    @property
    def asked(self) -> list[str]:
        return Path(f"{self.path.with_suffix('')}.asked").read_text().split()


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return Python(tmp_path / "python.sh")


def test_here_it_runs_the_kernels_that_are_shipped_without_any_engine(python: Python) -> None:
    host = observe(root=NOWHERE, mode="simulated")
    result = smoke_local(SmokeOrder(kernel="matmul"), host, python=python.says(json.dumps(here())))
    assert (result.place, result.verdict, result.simulated) == ("local", "pass", True)
    simulate, folder, *argv = python.asked
    assert (simulate, argv) == ("1", ["-m", "smoke_kernels", "matmul", "--all-devices", "--stand-for=local", "--json"])
    assert (Path(folder) / "smoke_kernels" / "__main__.py").is_file()


def test_here_a_wrong_product_fails_and_the_fix_stays_here(python: Python) -> None:
    wrong = here()
    wrong["results"][0]["proof"]["checks"][0]["passed"] = False
    result = smoke_local(
        SmokeOrder(kernel="matmul"), observe(root=NOWHERE, mode="simulated"), python=python.says(json.dumps(wrong), 1)
    )
    assert (result.verdict, result.fix) == ("fail", "gpuprov smoke matmul --local")


def test_here_without_numba_the_fix_is_the_line_that_installs_it(python: Python) -> None:
    said = refusal("numba-cuda cannot be imported", "ModuleNotFoundError: numba", 3).stdout
    with pytest.raises(HostNotReady, match="cannot be imported") as caught:
        smoke_local(SmokeOrder(kernel="matmul"), observe(root=NOWHERE, mode="simulated"), python=python.says(said, 3))
    assert caught.value.fix == f"{python.path} -m pip install 'gpuprov[local]'"


def test_here_without_a_gpu_that_works_the_fix_is_the_simulator(python: Python) -> None:
    said = json.loads(refusal("CUDA found no usable GPU", "cuInit 999", 3).stdout)
    said["error"]["remedy"] = "nvidia-smi"
    with pytest.raises(HostNotReady) as caught:
        smoke_local(
            SmokeOrder(kernel="matmul"),
            observe(root=NOWHERE, mode="simulated"),
            python=python.says(json.dumps(said), 3),
        )
    assert "gpuprov smoke matmul --local --gpu-mode simulated" in caught.value.fix


def test_here_it_is_given_up_in_the_end(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.verify.smoke_result.TIMEOUT_S", 0.2)
    path = python.says("")
    python.path.write_text("#!/bin/sh\nexec sleep 30\n")
    with pytest.raises(TimedOut):
        smoke.smoke_local(SmokeOrder(kernel="matmul"), observe(root=NOWHERE, mode="simulated"), python=path)
