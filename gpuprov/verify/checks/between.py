"""What the hosts of one cluster need of each other, asked about each of them: pure functions over what was observed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.excerpt import few
from gpuprov.verify.checks.driver import facts_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown, warned
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.verify.models import Expectation, Finding, Observation

SKEW_S: Final = 1.0
MUNGE_S: Final = 300.0  # a credential of munge is valid for so long, and refused by a clock that is further off
_MOST_NAMED: Final = 4


def judge_answers(expected: Expectation, seen: Observation) -> Finding:
    """The host answers."""
    if seen.facts is None:
        return failed(seen.problem or "the host does not answer", host=expected.node)
    return passed(f"the host answers in {seen.seconds:.1f} s")


def judge_version(expected: Expectation, seen: Observation) -> Finding:
    """The host runs the same version of gpuprov as the machine that asks."""
    versions = facts_of(seen, "versions")
    there, here = versions["there"], versions["here"]
    if there != here:
        return failed(f"version {there} there, {here} on the machine that asks", host=expected.node)
    return passed(f"version {there}")


def judge_clock(expected: Expectation, seen: Observation) -> Finding:
    """The host's clock shows the time of the machine that asks; what the way to it took is left out."""
    clock = facts_of(seen, "clock")
    ahead, unsure = float(clock["ahead_s"]), float(clock["unsure_s"])
    text = f"{abs(ahead):.2f} s {'ahead of' if ahead > 0 else 'behind'} the machine that asks (± {unsure:.2f} s)"
    skew = abs(ahead) - unsure
    if skew >= MUNGE_S:
        return failed(f"{text}; munge refuses credentials that are {MUNGE_S:.0f} s old", host=expected.node)
    return warned(text, host=expected.node) if skew > SKEW_S else passed(text)


def judge_driver(expected: Expectation, seen: Observation) -> Finding:
    """The host has the NVIDIA driver that most hosts of the cluster have."""
    drivers: Mapping[str, str | None] = facts_of(seen, "drivers")
    mine, versions = drivers[expected.node], Counter(version for version in drivers.values() if version)
    if mine is None:
        return not_asked("no NVIDIA driver is loaded on this host")
    usual = max(versions, key=lambda version: (versions[version], version))
    if mine == usual:
        return passed(f"driver {mine}, as on {versions[mine] - 1} other hosts")
    others = _some([host for host, version in drivers.items() if version == usual])
    return warned(f"driver {mine}; {usual} on {others}", host=expected.node)


def judge_link(expected: Expectation, seen: Observation) -> Finding:
    """The overlay's device is there, as it is to be, and a port of the bridge of the private network."""
    overlay = _overlay_of(seen)
    if overlay is None:
        return not_asked("this cluster has no overlay")
    wanted, device, parent = overlay["wanted"], overlay["device"], overlay["parent"]
    name, bridge = wanted["device"], wanted["parent"]
    if device is None:
        return failed(f"there is no link {name}", host=expected.node)
    wrong = [
        f"{key} is {device[key] or 'none'} instead of {wanted[key]}"
        for key in ("alias", "vni", "port", "local")
        if device[key] != wanted[key]
    ]
    wrong += (
        [] if device["master"] == bridge else [f"it is a port of {device['master'] or 'no bridge'}, not of {bridge}"]
    )
    wrong += [] if device["up"] else ["it is down"]
    wrong += [] if parent and parent["up"] else [f"the bridge {bridge} is {'down' if parent else 'missing'}"]
    if wrong:
        return failed(f"{name}: {'; '.join(wrong)}", host=expected.node)
    return passed(f"{name} (VXLAN {wanted['vni']}) is a port of {bridge}")


def judge_mtu(expected: Expectation, seen: Observation) -> Finding:
    """Overlay and bridge have the same MTU on all hosts, and a packet of that size reaches each host in one piece."""
    overlay = _overlay_of(seen)
    if overlay is None:
        return not_asked("this cluster has no overlay")
    wanted, underlay = overlay["wanted"], overlay["underlay_mtu"]
    mtu, outer = wanted["mtu"], wanted["mtu"] + wanted["overhead"]
    links = {wanted["device"]: overlay["device"], wanted["parent"]: overlay["parent"]}
    wrong = [f"{name} has MTU {link['mtu']} instead of {mtu}" for name, link in links.items() if link["mtu"] != mtu]
    if wrong:
        return failed("; ".join(wrong), host=expected.node)
    if underlay is not None and underlay < outer:
        text = f"packets of {outer} bytes are sent to the other hosts, on a network with MTU {underlay}"
        return failed(text, "underlay", host=expected.node)
    echoes: Mapping[str, Mapping[str, str]] = overlay["echoes"]
    split = [host for host, echo in echoes.items() if echo["small"] == "answers" and echo["full"] != "answers"]
    if split:
        return failed(f"{outer} bytes do not reach {_some(split)} in one piece", "underlay", host=expected.node)
    whole = [host for host, echo in echoes.items() if echo["full"] == "answers"]
    silent = [host for host in echoes if host not in whole]
    if silent:
        return unknown(f"MTU {mtu}; cannot be tested: {_some(silent)} answers no ping", "silent", host=expected.node)
    return passed(
        f"MTU {mtu}; {outer} bytes reach {len(whole)} other host{'' if len(whole) == 1 else 's'} in one piece"
    )


def judge_peers(expected: Expectation, seen: Observation) -> Finding:
    """The overlay sends to every other host of the cluster, and to nobody else."""
    overlay = _overlay_of(seen)
    if overlay is None:
        return not_asked("this cluster has no overlay")
    wanted: Mapping[str, str] = overlay["wanted"]["peers"]
    present: Sequence[str] = overlay["peers"]
    missing = [f"{host} {address}" for host, address in wanted.items() if address not in present]
    strange = [address for address in present if address not in wanted.values()]
    if missing or strange:
        parts = [f"{_some(missing)} is missing"] if missing else []
        parts += [f"{_some(strange)} is not a host of the cluster"] if strange else []
        return failed(f"{overlay['wanted']['device']}: {'; '.join(parts)}", host=expected.node)
    return passed(f"all {len(present)} other hosts" if present else "there is no other host")


def _overlay_of(seen: Observation) -> Mapping[str, Any] | None:
    """The facts; None where gpuprov makes no overlay."""
    return facts_of(seen, "overlay") or None


def _some(names: Sequence[Any]) -> str:
    return few([*map(str, names)], _MOST_NAMED)


_NEEDS = ("host-version",)
RULES = (
    Rule(id="host-answers", layer="node", needs=(), judge=judge_answers),
    Rule(id="host-version", layer="node", needs=("host-answers",), judge=judge_version, fact="versions"),
    Rule(id="host-clock", layer="node", needs=_NEEDS, judge=judge_clock, fact="clock"),
    Rule(
        id="host-driver-equal",
        layer="driver",
        needs=_NEEDS,
        judge=judge_driver,
        fact="drivers",
        severity="warning",
    ),
    Rule(id="overlay-link", layer="network", needs=_NEEDS, judge=judge_link, fact="overlay"),
    Rule(id="overlay-mtu", layer="network", needs=("overlay-link",), judge=judge_mtu, fact="overlay"),
    Rule(id="overlay-peers", layer="network", needs=("overlay-link",), judge=judge_peers, fact="overlay"),
)
