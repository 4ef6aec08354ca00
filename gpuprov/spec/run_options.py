"""What `gpuprov run` takes as Docker's own client does: ports, a restart policy, a user, a file of variables."""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.shapes.choices import RESTARTS, Restart
from gpuprov.shapes.node import LOCALLY, Exposure
from gpuprov.spec.variables import FORM, find_variable_problems, overlay_variables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PORTS: Final = re.compile(r"(?:([^:]*):)?([0-9]{1,5}):([0-9]{1,5})", re.ASCII)
_PORT_MAX: Final = 65535
_RETRIES: Final = re.compile(r"on-failure:([0-9]{1,6})", re.ASCII)
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?", re.ASCII)


def parse_publish(text: str) -> Exposure:
    """`[IP:]HOST:CONTAINER`, such as 8080:80; without an address, this host alone reaches it.

    Raises:
        UsageError: It is none.
    """
    found = _PORTS.fullmatch(text)
    ports = [int(found[2]), int(found[3])] if found else []
    if not found or not all(1 <= port <= _PORT_MAX for port in ports) or not _is_address(found[1]):
        raise UsageError(
            f"--publish {excerpt(text)!r} is not [IP:]HOST:CONTAINER",
            evidence=f"allowed: an IPv4 address of the host, and two TCP ports, 1 to {_PORT_MAX}",
            fix="--publish 8080:80; for other machines: --publish 0.0.0.0:8080:80",
        )
    return Exposure(host_port=ports[0], node_port=ports[1], listen=found[1] or LOCALLY)


def _is_address(text: str | None) -> bool:
    if text is None:
        return True
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def refuse_same_port(exposures: Iterable[Exposure]) -> None:
    """Refuse a port of the host that is to lead to two places.

    Raises:
        UsageError: There is one.
    """
    seen: set[int] = set()
    for exposure in exposures:
        if exposure.host_port in seen:
            raise UsageError(
                f"port {exposure.host_port} of the host is published twice",
                evidence=f"--publish {exposure.host_port}:{exposure.node_port}",
                fix="choose another port of the host: --publish HOST:CONTAINER",
            )
        seen.add(exposure.host_port)


def parse_restart(text: str) -> tuple[Restart, int]:
    """`no`, `on-failure`, `on-failure:N`, `unless-stopped` or `always`, and how many times; 0 without a limit.

    Raises:
        UsageError: It is none.
    """
    retries = _RETRIES.fullmatch(text)
    if retries and int(retries[1]):
        return "on-failure", int(retries[1])
    for word in RESTARTS:
        if text == word:
            return word, 0
    raise UsageError(
        f"--restart {excerpt(text)!r} is not a restart policy",
        evidence="allowed: no, on-failure, on-failure:N, unless-stopped, always",
        fix="--restart on-failure:3",
    )


def parse_user(text: str) -> str:
    """`USER` or `USER:GROUP`, names or numbers.

    Raises:
        UsageError: It is neither.
    """
    if not _USER.fullmatch(text):
        raise UsageError(
            f"--user {excerpt(text)!r} is not USER or USER:GROUP",
            evidence="allowed: names that the image has, or numbers",
            fix="--user 1000:1000",
        )
    return text


def resolve_variables(
    texts: Sequence[str], files: Mapping[str, str], here: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables of `--env` and `--env-file`, each as KEY=VALUE, and names of those that are to be unset.

    A name alone has the value that it has `here`; where it has none, the image's variable of that name is unset.

    Args:
        texts: Of `--env`, which come over those of files.
        files: Contents by path; later ones come over earlier ones, and so do later lines.
        here: This process's own variables.

    Raises:
        UsageError: One is none.
    """
    given: tuple[str, ...] = ()
    unset: set[str] = set()
    for source, lines in (*((path, _lines(content)) for path, content in files.items()), ("--env", _typed(texts))):
        known: dict[str, str | None] = {}
        for where, line in lines:
            name, equals, value = line.partition("=")
            problem = next(find_variable_problems([line if equals else f"{name}="]), None)
            if problem is None and source == "--env" and name in known:
                problem = (0, f"{name} is set twice")
            if problem is not None:
                place = source if source == "--env" else f"--env-file {source}, line {where}"
                raise UsageError(
                    f"{place}: {problem[1]}",
                    evidence=f"{excerpt(name)}; allowed: {FORM}",
                    fix="--env KEY=VALUE" if source == "--env" else f"mend line {where} of {source}",
                )
            known[name] = value if equals else here.get(name)
        given = overlay_variables(given, [f"{name}={value}" for name, value in known.items() if value is not None])
        absent = {name for name, value in known.items() if value is None}
        given = tuple(text for text in given if text.partition("=")[0] not in absent)
        unset = (unset | absent) - {text.partition("=")[0] for text in given}
    return given, tuple(sorted(unset))


def _typed(texts: Sequence[str]) -> list[tuple[int, str]]:
    return list(enumerate(texts, 1))


def _lines(content: str) -> list[tuple[int, str]]:
    """Those of a file that are neither empty nor a comment, with their numbers."""
    numbered = [(number, line.rstrip("\r").lstrip()) for number, line in enumerate(content.split("\n"), 1)]
    return [(number, line) for number, line in numbered if line and not line.startswith("#")]
