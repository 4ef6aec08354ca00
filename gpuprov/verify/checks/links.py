"""Whether a GPU's connections are up: PCIe, NVLink, the NVSwitch fabric, and GPU to GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.verify.checks.driver import NO_GPU, facts_of, no_driver
from gpuprov.verify.checks.readings import explain_code, gpu_rule, gpus_of, values_of
from gpuprov.verify.finding import failed, not_asked, passed, warned
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from gpuprov.verify.checks.readings import Values
    from gpuprov.verify.models import Expectation, Finding, Observation

_FABRIC = {1: "not started", 2: "in progress", 3: "completed"}
FABRIC_DONE = 3
# Bits of NVML_GPU_FABRIC_HEALTH_MASK: two each, of which 1 says that it is so
_FABRIC_SICK = {0: "bandwidth degraded", 4: "route unhealthy"}
_FABRIC_BUSY = {2: "route recovery in progress", 6: "access timeout recovery in progress"}
_FABRIC_CONFIGURATION = 8  # four bits
_FABRIC_WRONG = {
    2: "wrong system GUID",
    3: "wrong chassis serial number",
    4: "no partition",
    5: "too few NVLinks",
    6: "incompatible GPU firmware",
    7: "invalid location",
    8: "GPU state invalid",
}
# Models on boards whose NVLinks are wired; cards for PCIe slots report links too, which are down without a bridge, and
# most boards with a GH200 have no other GPU to be linked with
_WIRED = re.compile(r"SXM|H100 80GB HBM3|H(?:20|200)$|G?B[23]00")
# NVLinks of each GPU by NVIDIA's data sheets; A800 and H800 have fewer than the models that they derive from
_LINKS = {"P100-SXM2": 4, "V100-SXM[23]": 6, "A100-SXM4": 12, r"H100 80GB HBM3|H200$|G?B[23]00": 18}
_P2P = {
    1: "not supported by the chipset",
    3: "not supported by the topology",
    4: "disabled by a driver setting",
    6: "unknown",
}
_P2P_NEVER = (2, 5)  # a GPU without it, such as a GeForce


def look_at_width(values: Values) -> Finding:
    """Every PCIe lane is in use."""
    now, most = values["pcie_width"], values["pcie_width_max"]
    return failed(f"PCIe x{now} of x{most}") if now < most else passed(f"PCIe x{now}")


def look_at_nvlink(values: Values) -> Finding:
    """All links of the model are up; all down is a card without a bridge, or a machine without NVLink."""
    links = [int(up) for up in values["nvlinks"]]
    down = [str(number) for number, up in enumerate(links) if not up]
    if links and len(down) == len(links) and _is_wired(values):
        # a warning: in a virtual machine with one GPU of a board nobody is at the other end
        return warned(f"all {len(links)} NVLinks are down, although {values['name']} boards wire them")
    if not links or len(down) == len(links):
        return not_asked("no NVLink is in use")
    if down:
        return failed(f"NVLink {', '.join(down)} of {len(links)} down")
    most = next((count for model, count in _LINKS.items() if re.search(model, values["name"])), 0)
    if len(links) < most and not is_cut(values):
        # a warning: a virtual machine may get a part of them; one that differs from its peers fails host-nvlink
        return warned(f"{len(links)} NVLinks up, {values['name']} has {most}")
    return passed(f"{len(links)} NVLinks up")


def _is_wired(values: Values) -> bool:
    """Whether NVLinks of this GPU are there to be used: a GPU that is cut into parts has none."""
    return bool(_WIRED.search(values["name"])) and not is_cut(values)


def is_cut(values: Values) -> bool:
    """Whether MIG is on."""
    return bool(values.get("mig_mode", [0])[0])


def judge_links_of_peers(expected: Expectation, seen: Observation) -> Finding:
    """GPUs of one model on boards that wire them have as many links as each other, and none has lost them all.

    Where only some links of a GPU are down, the check of that GPU tells it.
    """
    if facts_of(seen, "driver")["version"] is None:
        return not_asked(no_driver(expected))
    models: dict[str, dict[str, list[int]]] = {}
    for gpu in gpus_of(seen):
        values = {"name": gpu["name"], **values_of(gpu["readings"])}
        if "nvlinks" in values and _is_wired(values):
            models.setdefault(gpu["name"], {})[gpu["uuid"]] = [int(up) for up in values["nvlinks"]]
    wrong: dict[str, str] = {}
    for peers in models.values():
        most, in_use = max(map(len, peers.values())), any(map(any, peers.values()))
        wrong |= {uuid: f"has {len(links)} of {most} NVLinks" for uuid, links in peers.items() if len(links) < most}
        wrong |= {uuid: f"has all {most} NVLinks down" for uuid, links in peers.items() if in_use and not any(links)}
    if wrong:
        text = ", ".join(f"{uuid} {what}" for uuid, what in wrong.items())
        return failed(f"{text}; GPUs of the same model have them up", uuid=next(iter(wrong)))
    compared = sum(len(peers) for peers in models.values() if len(peers) > 1)
    return (
        passed(f"{compared} GPUs have the same NVLinks as their peers") if compared else not_asked("no GPUs to compare")
    )


def look_at_fabric(values: Values) -> Finding:
    """The GPU has joined the fabric of an NVSwitch system, without which CUDA does not start there."""
    state, status = values["fabric"]["state"], values["fabric"]["status"]
    if state == 0:
        return not_asked("no NVSwitch fabric")
    text = f"fabric {_FABRIC.get(state, state)}, status {status}"
    health = values["fabric"].get("health", 0)
    wrong = name_fabric_faults(health)
    if state != FABRIC_DONE or status:
        return failed(text)
    if wrong:
        return failed(", ".join([text, *wrong]), "health")
    busy = [name for shift, name in _FABRIC_BUSY.items() if health >> shift & 3 == 1]
    return warned(", ".join([text, *busy]), "health") if busy else passed(text)


def name_fabric_faults(health: int) -> list[str]:
    """What the health mask of a GPU in the fabric says is wrong; the state stays `completed` meanwhile."""
    wrong = [name for shift, name in _FABRIC_SICK.items() if health >> shift & 3 == 1]
    configuration = health >> _FABRIC_CONFIGURATION & 15
    if configuration > 1:
        wrong.append(f"configuration: {_FABRIC_WRONG.get(configuration, configuration)}")
    return wrong


def judge_p2p(expected: Expectation, seen: Observation) -> Finding:
    """The GPUs of the node reach each other's memory."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    mark = "SIMULATED: " if expected.simulated else ""
    pairs = facts_of(seen, "nvml")["p2p"]
    if not pairs:
        return not_asked(f"{mark}the node holds one GPU")
    wrong, never = [], ""
    for item in pairs:
        name = f"GPU {item['pair'][0]} and {item['pair'][1]}"
        if "value" not in item:
            finding = explain_code(name, item)
            if finding.status != "skip":
                return replace(finding, known={"uuid": expected.gpus[0]})
            never = finding.evidence
        elif item["value"] in _P2P_NEVER:
            never = f"{name} do not support it"
        elif item["value"]:
            wrong.append(f"{name}: {_P2P.get(item['value'], item['value'])}")
    if wrong:
        return failed(f"{mark}{'; '.join(wrong)}")
    return not_asked(f"{mark}{never}") if never else passed(f"{mark}{len(pairs)} pairs can access each other's memory")


RULES = (
    gpu_rule(
        "nvml-pcie-width",
        ("pcie_width", "pcie_width_max"),
        look_at_width,
    ),
    gpu_rule(
        "nvml-nvlink",
        ("nvlinks",),
        look_at_nvlink,
    ),
    gpu_rule(
        "nvml-fabric",
        ("fabric",),
        look_at_fabric,
    ),
    Rule(id="nvml-p2p", layer="nvml", needs=("nvml-uuids",), judge=judge_p2p, fact="nvml", severity="warning"),
)

PEER_RULES = (Rule(id="host-nvlink", layer="nvml", needs=("host-nvml",), judge=judge_links_of_peers, fact="nvml"),)
