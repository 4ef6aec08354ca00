"""What a look at a host gives: a healthy one without a driver, or a recorded one."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from gpuprov.gpu.kernel_log import KernelLog
from gpuprov.gpu.observe import observe
from gpuprov.verify.models import Observation
from gpuprov.verify.probe import gather
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Mapping

GATEWAY = "10.0.3.1"
NOTHING = {"wrong": [], "right": "", "fix": ""}

RUNNING = {
    "LoadState": "loaded",
    "UnitFileState": "enabled",
    "ActiveState": "active",
    "NRestarts": "0",
    "ActiveEnterTimestampMonotonic": "20000000",
}
SERVICES: dict[str, Any] = {
    "asked_s": 90_000.0,
    "units": {"nvidia-fabricmanager": RUNNING, "nvidia-persistenced": RUNNING},
    "processes": ["nvidia-fabricmanager", "nvidia-persistenced"],
    "versions": {"nvidia-fabricmanager": "580.95.05", "nvidia-persistenced": "580.95.05"},
    "problem": "",
}


def simulated_nvml(document: Mapping[str, Any] | None) -> Any:
    """As `host_probe_argv` has it asked, in this process; a document is asked for once, and told to each."""
    return json.loads(_ask_simulated_nvml(json.dumps(document)))


@cache
def _ask_simulated_nvml(document: str) -> str:
    from importlib import resources

    import pynvml

    source = (resources.files("gpuprov.gpu") / "simulate.py").read_text()
    before = pynvml.nvmlLib
    try:
        asked = {"source": source, "document": json.loads(document)}
        facts = gather({"devices": [], "denied": [], "nvml": asked, "cuda": False, "network": {}})
    finally:
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()
    return json.dumps(facts["nvml"])


def see_host(simulation: Mapping[str, Any] | None, **changes: Any) -> Observation:
    """A healthy host; its GPUs are simulated where nodes hold simulated ones."""
    facts = {
        "kernel": "6.1.0",
        "driver": {"version": None, "gpus": [], "pci": {}, "cards": {}, "excluded": [], "switches": [], "silent": ""}
        | {"problem": "", "fix": ""},
        "libraries": NOTHING,
        "devices": NOTHING,
        "uvm": NOTHING,
        "nvml": simulated_nvml(simulation) if simulation else None,
        "stuck": None,
        "zombies": None,
        "services": None,
        "log": asdict(KernelLog(source="/dev/kmsg")),
        "addresses": {GATEWAY: "gpbr0"},
        **changes,
    }
    return Observation(facts=facts, seconds=0.1)


def see_real_host(**changes: Any) -> Observation:
    """A healthy host with four GPUs and a driver, as far as NVML can be simulated."""
    document = dict(observe(root=NOWHERE, mode="simulated").document or {})
    nvml = simulated_nvml(document)
    driver = {
        "version": "580.95.05",
        "pci": {nvml["gpus"][0]["uuid"]: "0000:51:00.0"},
        "excluded": [],
        "silent": "",
        "switches": ["0000:05:00.0"],
        "gpus": [gpu["uuid"] for gpu in nvml["gpus"]],
        "cards": {"0000:51:00.0": "nvidia"},
    }
    fine = {"wrong": [], "right": "as they must be", "fix": ""}
    return see_host(
        None,
        **{
            "driver": {**driver, "problem": "", "fix": ""},
            "libraries": fine,
            "devices": fine,
            "uvm": fine,
            "nvml": nvml,
            "stuck": {"waiting": [], "hidden": 0, "watched_s": 0.0},
            "zombies": {"ended": {"1234": "defunct"}},
            "services": SERVICES,
            **changes,
        },
    )
