"""`smoke`: one smoke kernel in nodes side by side, or on this machine without any engine."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.assets import get_asset
from gpuprov.cluster.held_gpus import leased_uuids
from gpuprov.cluster.state import observe_cluster, pick_nodes
from gpuprov.core.errors import GpuprovError, HostNotReady, UsageError
from gpuprov.core.execution import run
from gpuprov.core.names import name_cluster
from gpuprov.core.side_by_side import ask_side_by_side, questions_at_once
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_CLUSTER
from gpuprov.gpu.simulator import SIMULATOR_VARIABLE, simulator_environment
from gpuprov.project.local_packages import install_command
from gpuprov.verify.models import Expectation
from gpuprov.verify.request import stand_for
from gpuprov.verify.smoke_document import read_document
from gpuprov.verify.smoke_result import LOCAL, Answer, judge, no_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.smoke_run import SmokeResult
    from gpuprov.verify.smoke_result import SmokeOrder

_NO_DEVICE = 3  # of the smoke kernels' exit codes


def smoke_nodes(
    driver: Driver, cluster: str, order: SmokeOrder, *, nodes: Sequence[str] | None, reporter: Reporter
) -> tuple[SmokeResult, ...]:
    """Run a kernel in nodes side by side.

    Args:
        order: What to run.
        nodes: Names; None for every running node that holds a GPU.
        reporter: Is told when a node begins and ends.

    Raises:
        UsageError: There is no such node, it does not run, it holds no GPU, or the kernel cannot take the size.
        EngineError: The engine does not answer.
    """
    order.check()
    chosen = choose_nodes(observe_cluster(driver, cluster), nodes, order.kernel)

    def smoke(node: NodeState) -> SmokeResult:
        reporter.node(node.name, f"{order.kernel} runs")
        result = _smoke_node(driver, node, order)
        reporter.node(node.name, f"{result.verdict}{' (SIMULATED)' if result.simulated else ''}")
        return result

    with reporter.phase(f"smoke {order.kernel}"):
        return tuple(ask_side_by_side([partial(smoke, node) for node in chosen], workers=questions_at_once()))


def choose_nodes(state: ClusterState, names: Sequence[str] | None, kernel: str) -> tuple[NodeState, ...]:
    """The nodes to run in.

    Raises:
        UsageError: One that was named is not there, does not run or holds no GPU; or there is none to run in.
    """
    picked = pick_nodes(state, names, verb=f"gpuprov smoke {kernel}")
    if names is None:
        chosen = tuple(node for node in picked if node.status == "running" and leased_uuids(node))
        if not chosen:
            holders = " ".join(node.name for node in picked if leased_uuids(node))
            up = name_cluster("gpuprov cluster up --gpus-per-node 1", state.name)
            way = f"gpuprov start {holders}" if holders else up
            raise UsageError(
                f"no running node of the cluster {state.name} holds a GPU",
                evidence=", ".join(f"{node.name} is {node.status}" for node in picked),
                fix=f"{way}    # or, on this machine only: gpuprov smoke {kernel} --local",
            )
        return chosen
    for node in picked:
        if node.status != "running":
            raise UsageError(
                f"{node.name} is not running", evidence=f"it is {node.status}", fix=f"gpuprov start {node.name}"
            )
        if not leased_uuids(node):
            fix = "choose a node that holds a GPU: gpuprov list"
            raise UsageError(f"{node.name} holds no GPU", evidence="its label gpuprov.gpus lists no GPU", fix=fix)
    return picked


def smoke_local(order: SmokeOrder, host: HostGpus, *, python: str = sys.executable) -> SmokeResult:
    """Run a kernel on this machine, with the Python that runs gpuprov.

    Args:
        order: What to run.
        host: This machine's GPUs; where they are simulated, numba's simulator runs it.

    Raises:
        UsageError: The kernel cannot take the size.
        HostNotReady: There is no numba-cuda, or no GPU that CUDA can use.
        TimedOut: It did not end.
    """
    order.check()
    folder = get_asset("smoke_kernels").parent
    more = (f"--stand-for={LOCAL}",) if host.simulated else ()
    done = run(
        order.argv(python, *more),
        timeout_s=order.timeout_s(1 if host.simulated else len(host.gpus)),
        cwd=folder,
        environment={SIMULATOR_VARIABLE: "0", **simulator_environment(simulated=host.simulated)},
        check=False,
    )
    document = read_document({"stdout": done.stdout})
    error = (document or {}).get("error")
    if error and done.exit_code == _NO_DEVICE:
        install = install_command(host, python=python) if "pip install" in error["remedy"] else ""
        fix = install or f"nvidia-smi; or without a GPU: gpuprov smoke {order.kernel} --local --gpu-mode simulated"
        raise HostNotReady(error["what"], evidence=error["evidence"], fix=fix)
    # CUDA_VISIBLE_DEVICES is the user's own to set here, so that whatever CUDA shows is what was meant.
    gpus = tuple(((document or {}).get("device") or {}).get("visible") or (LOCAL,))
    access = "simulated" if host.simulated else "raw"
    place = Expectation(node=LOCAL, status="running", access=access, gpus=gpus)
    return judge(place, order, Answer(exit_code=done.exit_code, stdout=done.stdout, stderr=done.stderr))


def _smoke_node(driver: Driver, node: NodeState, order: SmokeOrder) -> SmokeResult:
    access = node.labels.get(LABEL_ACCESS, "none")
    place = Expectation(
        node=node.name,
        cluster=node.labels[LABEL_CLUSTER],
        status="running",
        access=access,
        gpus=leased_uuids(node),
    )
    environment = simulator_environment(simulated=place.simulated)
    try:
        done = driver.run(
            node.name,
            order.argv("python3", *stand_for(place)),
            environment=environment,
            timeout_s=order.timeout_s(len(place.gpus)),
        )
    except GpuprovError as error:
        return no_result(place, f"{error.what}: {error.evidence}", error.fix)
    return judge(place, order, Answer(exit_code=done.exit_code, stdout=done.stdout, stderr=done.stderr))
