"""The host's own part of the chain: what lies below all nodes, so that its failure is told once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuprov.core.excerpt import few
from gpuprov.core.requirements import least_kernel, older
from gpuprov.gpu.pci import normalise_pci
from gpuprov.verify.checks.driver import facts_of, no_driver
from gpuprov.verify.finding import failed, not_asked, passed, unknown, warned
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpuprov.verify.models import Expectation, Finding, Observation

HOST = "host"
_MOST_NAMED = 4


def judge_linux_version(_expected: Expectation, seen: Observation) -> Finding:
    """Linux is new enough for nodes."""
    release = str((seen.facts or {})["kernel"])
    least = least_kernel()
    return failed(f"Linux {release}, older than {least}") if older(release, least) else passed(f"Linux {release}")


def judge_host_module(expected: Expectation, seen: Observation) -> Finding:
    """The NVIDIA kernel module is loaded, where a node holds a real GPU."""
    driver = facts_of(seen, "driver")
    cards = ", ".join(driver["cards"])
    if driver["problem"]:
        return failed(driver["problem"], "given", given=driver["fix"])
    if driver["version"] and driver["silent"]:
        return passed(f"module {driver['version']}, which does not respond")
    if driver["version"]:
        return passed(f"module {driver['version']}, {len(driver['gpus'])} GPUs")
    if expected.access == "raw":
        there = f"there is a GPU at {cards}" if cards else "there is no NVIDIA GPU on the PCI bus"
        return failed(f"nodes hold real GPUs, but no NVIDIA module is loaded; {there}")
    unused = f"; the GPU at {cards} is not used" if cards else ""
    if expected.access == "simulated":
        return not_asked(f"SIMULATED: no NVIDIA driver on this host{unused}")
    return not_asked(f"no node holds a GPU, and no NVIDIA driver is loaded{unused}")


def judge_nouveau(expected: Expectation, seen: Observation) -> Finding:
    """No other driver has taken a GPU."""
    cards = facts_of(seen, "driver")["cards"]
    taken = [f"{card} by {name}" for card, name in cards.items() if name not in (None, "nvidia")]
    if taken:
        text = f"another driver is bound to {', '.join(taken)}"
        return failed(text) if expected.access == "raw" else warned(text)
    return passed(f"{len(cards)} GPUs, none bound to another driver") if cards else not_asked(no_driver(expected))


def judge_count(expected: Expectation, seen: Observation) -> Finding:
    """The PCI bus and the driver know the same GPUs, and as many as when the nodes were made."""
    driver = facts_of(seen, "driver")
    if driver["version"] is None:
        return not_asked(no_driver(expected))
    if driver["silent"]:
        return unknown(f"/proc/driver/nvidia/gpus: {driver['silent']}", "host-nvml/unanswered")
    cards: dict[str, str | None] = driver["cards"]
    if not cards:
        return not_asked("/sys/bus/pci shows no NVIDIA GPU")  # as in a container of somebody else's
    given_away = {card for card, name in cards.items() if name not in (None, "nvidia")}
    known = set(driver["pci"].values())
    left_out = given_away | set(driver["excluded"])
    missing = set(cards) - left_out - known - _list_unready(driver)  # host-lost tells those
    wrong = [f"the GPU at {card} is on the PCI bus, but the driver does not list it" for card in sorted(missing)]
    wrong += [f"the driver lists a GPU at {card}, but the PCI bus does not" for card in sorted(known - set(cards))]
    if wrong:
        return failed("; ".join(wrong))
    if len(cards) < expected.host_gpus:
        before = f"this host had {expected.host_gpus} when its nodes were created"
        return failed(f"{len(cards)} GPUs are on the PCI bus; {before}", "fewer")
    return passed(f"{len(known)} GPUs on the PCI bus and in the driver")


def judge_files(part: str, expected: Expectation, seen: Observation) -> Finding:
    """One part of the driver's files, as the look at the host has compared them with the module."""
    facts = facts_of(seen, part)
    if facts_of(seen, "driver")["version"] is None:
        return not_asked(no_driver(expected))
    wrong = "; ".join(facts["wrong"])
    if wrong and facts["fix"]:
        return failed(wrong, "given", given=facts["fix"])
    if wrong:
        return failed(wrong)
    return passed(facts["right"])


def judge_nvml(expected: Expectation, seen: Observation) -> Finding:
    """NVML answers, is of the module's version and lists the module's GPUs."""
    driver, nvml = facts_of(seen, "driver"), (seen.facts or {})["nvml"]
    if nvml is None:
        return not_asked(no_driver(expected))
    mark = "SIMULATED: " if expected.simulated else ""
    if "missing" in nvml:
        return unknown(f"{mark}{nvml['missing']}", "missing")
    if "unanswered" in nvml:
        return unknown(f"{mark}{nvml['unanswered']}", "unanswered")
    if "failed" in nvml:
        said = nvml["failed"]
        code = said["code"]
        return failed(f"{mark}{said['call']}: {said['text']} (code {code})", f"nvml-answers/code-{code}")
    return _compare_lists(expected, driver, nvml, (seen.facts or {}).get("lost", ()))


def _compare_lists(
    expected: Expectation, driver: Mapping[str, Any], nvml: Mapping[str, Any], lost: Sequence[Mapping[str, Any]]
) -> Finding:
    mark = "SIMULATED: " if expected.simulated else ""
    uuids = [gpu["uuid"] for gpu in nvml["gpus"]]
    if lost and not uuids:
        first = lost[0]
        return failed(f"none of {len(lost)} GPUs can be used: {first['text']}", _place_of(first))
    told = {gpu["uuid"] for gpu in lost}
    named = [uuid for uuid in driver["gpus"] if uuid not in told]
    new = [gpu["uuid"] for gpu in nvml["gpus"] if normalise_pci(gpu.get("pci", "")) in _list_unready(driver)]
    if not expected.simulated and sorted(set(uuids) - set(new)) != sorted(named):
        missing = [f"{uuid} at {driver['pci'].get(uuid, '?')}" for uuid in named if uuid not in uuids]
        text = f"NVML lists {_names(uuids)}, but /proc/driver/nvidia/gpus {_names(driver['gpus'])}"
        return failed(f"{text}; NVML lacks {_names(missing)}" if missing else text)
    return passed(f"{mark}{len(uuids)} GPUs: {_names(uuids)}")


def _list_unready(told: Mapping[str, Any]) -> frozenset[str]:
    """Addresses of the GPUs that the driver had not initialised when it was asked, before NVML."""
    return frozenset(told.get("unready", ()))


def judge_lost(expected: Expectation, seen: Observation) -> Finding:
    """Every GPU that the host has can be used."""
    if facts_of(seen, "driver")["version"] is None:
        return not_asked(no_driver(expected))
    lost = (seen.facts or {}).get("lost", ())
    if lost:
        usable = len(facts_of(seen, "nvml")["gpus"])
        named = "; ".join(gpu["text"] for gpu in lost[:_MOST_NAMED])
        first = lost[0]
        return failed(f"{len(lost)} of {usable + len(lost)} GPUs: {named}", _place_of(first))
    return passed("every GPU of this host can be used")


def _place_of(lost: Mapping[str, Any]) -> str:
    """Where the catalogue has what to do about a lost GPU."""
    return "" if lost["code"] is None else f"nvml-answers/code-{lost['code']}"


def judge_network(expected: Expectation, seen: Observation) -> Finding:
    """The cluster's gateway is an address of this host."""
    if expected.gateway is None:
        return not_asked("the cluster has no NAT network")
    addresses: dict[str, str] | None = (seen.facts or {})["addresses"]
    if addresses is None:
        return unknown("the host's addresses cannot be read: `ip` is missing or failed", "no-ip")
    if expected.gateway not in addresses:
        return failed(f"no interface of this host has the gateway's address {expected.gateway}")
    return passed(f"{expected.gateway} is on {addresses[expected.gateway]}")


def _names(uuids: list[Any]) -> str:
    return few([*map(str, uuids)], _MOST_NAMED) or "none"


RULES = (
    Rule(id="host-kernel", layer="node", needs=(), judge=judge_linux_version, fact="kernel"),
    Rule(id="host-network", layer="network", needs=(), judge=judge_network, fact="addresses"),
    Rule(id="host-module", layer="driver", needs=(), judge=judge_host_module, fact="driver"),
    Rule(id="host-nouveau", layer="driver", needs=(), judge=judge_nouveau, fact="driver"),
    Rule(id="host-gpus", layer="driver", needs=("host-module",), judge=judge_count, fact="driver"),
    Rule(
        id="host-libraries",
        layer="driver",
        needs=("host-module",),
        judge=partial(judge_files, "libraries"),
        fact="libraries",
    ),
    Rule(
        id="host-devices",
        layer="devices",
        needs=("host-module",),
        judge=partial(judge_files, "devices"),
        fact="devices",
    ),
    Rule(id="host-uvm", layer="devices", needs=("host-module",), judge=partial(judge_files, "uvm"), fact="uvm"),
    Rule(id="host-nvml", layer="nvml", needs=("host-module", "host-libraries"), judge=judge_nvml, fact="nvml"),
    Rule(id="host-lost", layer="nvml", needs=("host-nvml",), judge=judge_lost, fact="nvml"),
)
