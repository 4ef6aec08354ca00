"""Names of clusters and nodes: the rules they follow, and sets of nodes written as `c[000-003]`."""

from __future__ import annotations

import re
from itertools import groupby

from gpuprov.core.errors import UsageError
from gpuprov.shapes.choices import CLUSTER_RULE, DEFAULT_CLUSTER

BRIDGES = "gpbr"  # what the names of bridges begin with that gpuprov chooses, and a number follows

LENGTH_MAX = 63
SET_MAX = 1024
RULE = "1 to 63 lower-case letters, digits and hyphens; starts with a letter, does not end with a hyphen"

CLUSTER = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?", re.ASCII)

_OF_CLUSTER = {
    r"\bgpuprov cluster (up|plan)\b": "--name ",
    r"\bgpuprov cluster (down|status|spec)\b(?! [a-z])": "",
    r"\bgpuprov (verify|smoke [a-z]+|submit|jobs(?: (?:show|logs|cancel|wait|pull|rm))?)\b": "--cluster ",
    r"\bgpuprov (grid [a-z]+|anneal run|queue page|rest|token|program (?:run|list|rm|page)|hardware)\b": "--cluster ",
    r"\bgpuprov usage\b": "--cluster ",
    r"\bgpuprov (person (?:list|(?:add|set|rm) [a-z][a-z0-9_-]*))\b": "--cluster ",
}
_UNNAMED = r"(?!(?:(?!\bgpuprov\b)[^;\n])*? --(?:name|cluster|help)\b)"  # in the same command
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_MADE_UP = re.compile(r"job-[0-9a-f]{8}", re.ASCII)
_NUMBERED = re.compile(r"(.*?)([0-9]+)", re.ASCII)
_SET = re.compile(r"([^\[\],]*)\[([^\[\]]*)\]([^\[\],]*)|[^\[\],]+", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def node_name(prefix: str, number: int) -> str:
    """The name of node `number`: prefix and at least three digits."""
    return f"{prefix}{number:03d}"


def check_cluster_name(name: str) -> str:
    """Return the name if a cluster can have it; it is a part of paths on the host.

    Raises:
        UsageError: It breaks the rule.
    """
    if not CLUSTER.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid cluster name",
            evidence=f"allowed: {CLUSTER_RULE}",
            fix="list the clusters: gpuprov list",
        )
    return name


_implied = [DEFAULT_CLUSTER]  # of the process


def imply_cluster(name: str) -> None:
    """Say which cluster commands are about that name none; empty if nobody knows."""
    _implied[0] = name


def name_cluster(text: str, cluster: str) -> str:
    """Words with commands in them, such as a fix, with the cluster named in each that would else take the default.

    A command that names one already stays as it is, so what has been named can be given again.
    """
    if cluster == _implied[0] or not CLUSTER.fullmatch(cluster):  # a damaged label names none
        return text
    for commands, option in _OF_CLUSTER.items():
        text = re.sub(commands + _UNNAMED, rf"\g<0> {option}{cluster}", text)
    return text


RUN_END = ".run"  # of the engine's name of a container of `gpuprov run` with a name of its own: no node has a dot


def node_of_run(name: str) -> str:
    """What the engine calls the container of `gpuprov run` that has this name."""
    return f"{name}{RUN_END}"


def name_of_run(node: str) -> str:
    """What people call it."""
    return node.removesuffix(RUN_END)


def is_run_name(node: str) -> bool:
    """Whether an engine's name is that of a container of `gpuprov run`, with a name of its own or a made up one."""
    return node.endswith(RUN_END) or _MADE_UP.fullmatch(node) is not None


def make_up_run_name() -> str:
    """For one without a name."""
    from secrets import token_hex  # loads hashlib and hmac

    return f"job-{token_hex(4)}"


def check_run_name(name: str) -> str:
    """Return the name if a container of `gpuprov run` can have it.

    Raises:
        UsageError: It breaks the rule.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--name {name!r} is not a valid name", evidence=f"allowed: {RULE}", fix="choose a name such as train"
        )
    return name


def check_node_name(name: str, what: str = "node name") -> str:
    """Return the name if it is one, or that of `what` has the same rule.

    Raises:
        UsageError: It breaks the rule.
    """
    if name.endswith(RUN_END) and _NAME.fullmatch(name_of_run(name)):
        raise UsageError(
            f"{name} is no node",
            evidence="it is the name of a container of `gpuprov run`",
            fix=f"gpuprov run ps; gpuprov run logs {name_of_run(name)}",
        )
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid {what}",
            evidence=f"allowed: {RULE}",
            fix="choose a name such as " + ("c000" if what == "node name" else "before-upgrade"),
        )
    return name


def fold(names: list[str] | tuple[str, ...]) -> str:
    """Write a set of names shortly: c000 c001 c002 c005 web -> `c[000-002,005],web`."""
    numbered: list[tuple[str, int, int]] = []
    plain: list[str] = []
    for name in sorted(set(names)):
        match = _NUMBERED.fullmatch(name)
        if match:
            numbered.append((match[1], len(match[2]), int(match[2])))
        else:
            plain.append(name)
    parts = []
    for (prefix, width), group in groupby(sorted(numbered), key=lambda entry: entry[:2]):
        numbers = [number for _, _, number in group]
        parts.append(_fold_numbers(prefix, width, numbers))
    return ",".join(sorted(parts + plain))


def expand_names(text: str) -> tuple[str, ...]:
    """Names of a set such as `c[000-002,005],web`, in the order written, each once and each a valid node name.

    Raises:
        UsageError: It is not a valid set of node names, or holds more than 1024 of them.
    """
    names: dict[str, None] = {}
    for item in _split(text):
        match = _SET.fullmatch(item)
        if match is None:
            raise _bad_set(text, f"cannot read {item!r}")
        members = [item] if match[2] is None else [match[1] + d + match[3] for d in _expand_ranges(text, match[2])]
        names.update(dict.fromkeys(members))
        if len(names) > SET_MAX:
            raise _bad_set(text, f"more than {SET_MAX} names")
    return tuple(check_node_name(name) for name in names)


def _split(text: str) -> list[str]:
    """Split at the commas that are outside brackets."""
    return [item.strip() for item in re.split(r",(?![^\[]*\])", text)]


def _expand_ranges(text: str, ranges: str) -> list[str]:
    digits: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise _bad_set(text, f"{part!r} is not a number or a range")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + SET_MAX:
            raise _bad_set(text, f"the range {part} is reversed or contains more than {SET_MAX} names")
        digits += [f"{number:0{len(match[1])}d}" for number in range(first, last + 1)]
    return digits


def _fold_numbers(prefix: str, width: int, numbers: list[int]) -> str:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    written = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs]
    if len(written) == 1 and runs[0][0] == runs[0][1]:
        return prefix + written[0]
    return f"{prefix}[{','.join(written)}]"


def _bad_set(text: str, why: str) -> UsageError:
    return UsageError(
        f"{text!r} is not a valid set of node names", evidence=why, fix="write it like c[000-003] or c000,c001"
    )
