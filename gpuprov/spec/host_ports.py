"""Ports of the host that nodes may reach besides its name server: `8080` (TCP), `8080/tcp` or `53/udp`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from gpuprov.spec.rule import SpecRule

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.rule import Found

_FORM: Final = re.compile(r"([1-9][0-9]{0,4})(?:/(tcp|udp))?")
_PORT_MAX: Final = 65535
_MOST: Final = 100
_KEY: Final = "network.host_ports"
_ALLOWED: Final = "1 to 65535, or such a number with /tcp or /udp, such as 53/udp"


class HostPort(NamedTuple):
    """A port of the host."""

    protocol: Literal["tcp", "udp"]
    number: int


def parse_host_port(text: int | str) -> HostPort | None:
    """A port as a spec has it; None for anything else."""
    found = _FORM.fullmatch(str(text))
    if found is None or int(found[1]) > _PORT_MAX:
        return None
    return HostPort(protocol=cast("Literal['tcp', 'udp']", found[2] or "tcp"), number=int(found[1]))


def describe_host_ports(ports: Iterable[int | str]) -> str:
    """The ports in one order and form, whatever way they were written; empty for none."""
    found = sorted({port for port in map(parse_host_port, ports) if port}, key=lambda port: (port.number, port))
    return ",".join(f"{port.number}/{port.protocol}" for port in found)


def read_host_ports(text: str) -> tuple[HostPort, ...]:
    """What `describe_host_ports` wrote; what it cannot have written opens nothing."""
    return tuple(port for port in map(parse_host_port, text.split(",")) if port)


def _find(spec: ClusterSpec, _root: Path) -> Found:
    ports = spec.network.host_ports
    if len(ports) > _MOST:
        yield _KEY, f"has {len(ports)} ports", f"{_MOST} or fewer"
        return
    for index, port in enumerate(ports):
        if parse_host_port(port) is None:
            yield f"{_KEY}[{index}]", f"{str(port)[:80]!r} is not a port", _ALLOWED


HOST_PORTS_RULE: Final = SpecRule(reads=(_KEY,), find=_find)
