"""Whether the node reaches the host and every other running node, on both networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.verify.checks.driver import facts_of
from gpuprov.verify.finding import failed, not_asked, passed
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from gpuprov.verify.models import Expectation, Finding, Observation

PUBLIC, PRIVATE = "eth0", "eth1"


def judge_gateway(expected: Expectation, seen: Observation) -> Finding:
    """The host answers on the NAT network."""
    if expected.gateway is None:
        return not_asked("the node is not on a network with NAT")
    facts = facts_of(seen, "network")[PUBLIC]
    if expected.gateway not in facts["reached"]:
        problem = f" ({facts['problem']})" if "problem" in facts else ""
        return failed(f"the gateway {expected.gateway} does not respond on {PUBLIC}{problem}")
    return passed(f"the gateway {expected.gateway} responds on {PUBLIC}")


def judge_public(expected: Expectation, seen: Observation) -> Finding:
    """Every other running node answers on eth0."""
    return _judge_peers(seen, PUBLIC, {peer.address: peer.name for peer in expected.peers})


def judge_private(expected: Expectation, seen: Observation) -> Finding:
    """Every other running node answers on eth1."""
    return _judge_peers(seen, PRIVATE, {peer.private_address: peer.name for peer in expected.peers})


def _judge_peers(seen: Observation, interface: str, peers: dict[str, str]) -> Finding:
    names = {address: name for address, name in peers.items() if address}
    if not names:
        return not_asked("no other node is running on a network that this node is on")
    facts = facts_of(seen, "network")[interface]
    silent = [f"{name} {address}" for address, name in names.items() if address not in facts["reached"]]
    if silent:
        problem = f" ({facts['problem']})" if "problem" in facts else ""
        return failed(f"no response on {interface} from {', '.join(silent)}{problem}")
    return passed(f"{len(names)} other node{'s' if len(names) > 1 else ''} answer on {interface}")


RULES = (
    Rule(
        id="network-gateway",
        layer="network",
        needs=("node-answers",),
        judge=judge_gateway,
        fact="network",
        host=("host-network",),
    ),
    Rule(id="network-public", layer="network", needs=("node-answers",), judge=judge_public, fact="network"),
    Rule(id="network-private", layer="network", needs=("node-answers",), judge=judge_private, fact="network"),
)
