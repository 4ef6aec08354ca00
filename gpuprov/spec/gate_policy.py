"""Reads a policy of `gate up --policy`: whatever is wrong in it is reported at once, with its line."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from gpuprov.core.excerpt import excerpt
from gpuprov.core.redact import hide_secrets
from gpuprov.shapes.base import changed
from gpuprov.shapes.faults import find_faults
from gpuprov.shapes.gate_policy import GatePolicy
from gpuprov.spec.document import SPEC, parse_yaml, problem
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpuprov.shapes.faults import Fault
    from gpuprov.shapes.values import Value

_POLICY: Final = "policy"  # in place of a key, where something is about the whole
_MOST_BYTES: Final = 1_000_000
_NAME: Final = re.compile(r"[^=\0]+")
_ASKS: Final = ("NVIDIA_", "HOUDINI_GPU_", "HOUDINI_ENABLED", "GPUPROV_")  # of GPUs, or says which there are
_KEPT_OUT: Final = ("proc", "sys", "dev")


def read_gate_policy(path: Path, *, is_there: Callable[[str], bool]) -> GatePolicy:
    """The policy in a file.

    Args:
        path: The YAML file.
        is_there: Whether the host has something at a path.

    Raises:
        SpecError: Listing every problem.
    """
    name = excerpt(str(path))
    try:
        if not path.is_file():
            path.stat()  # says why
            raise ValueError("it is no file")  # noqa: TRY301
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES:,} bytes")  # noqa: TRY301
        text = content.decode()
    except (OSError, ValueError) as error:
        reason = (error.strerror or "") if isinstance(error, OSError) else str(error)
        if isinstance(error, UnicodeDecodeError):
            reason = "it is not UTF-8 text"
        unreadable = problem(name, None, f"cannot be read: {reason}")
        raise SpecError(
            f"cannot read the policy {name}", problems=(unreadable,), fix=f"ls -l {shlex.quote(str(path))}"
        ) from error
    document, problems = parse_yaml(text)
    if document is None:
        problems = problems or [problem("schema", None, "the file is empty", allowed="gpuprov.gate-policy/v1")]
        raise _refused(path, problems)
    values, faults = find_faults(GatePolicy, document, file=SPEC, hide=hide_secrets)
    wrong = {found.where for found in problems}
    problems += [fault for fault in faults if fault.where not in wrong]
    policy = GatePolicy(**values)
    if not any(one.where.startswith("mounts") for one in problems):  # what is wrong there has no number any more
        problems += [changed(one, line=document.line_of(one.where)) for one in _mount_problems(policy, is_there)]
    problems += [changed(one, line=_line_of(document, one.where)) for one in _variable_problems(policy)]
    if problems:
        raise _refused(path, problems)
    return policy


def _mount_problems(policy: GatePolicy, is_there: Callable[[str], bool]) -> Iterator[Fault]:
    targets: set[str] = set()
    for number, mount in enumerate(policy.mounts):
        where = f"mounts[{number}]"
        for key, value in (("source", mount.source), ("target", mount.target)):
            if value != "/" and {"", ".", ".."} & {*value.split("/")[1:]}:
                yield problem(f"{where}.{key}", None, f"is {excerpt(value)}", allowed="a path without //, . and ..")
        if mount.target.split("/")[1] in ("", *_KEPT_OUT):
            allowed = f"a path below /, whose first folder is none of {', '.join(_KEPT_OUT)}"
            yield problem(f"{where}.target", None, f"is {excerpt(mount.target)}", allowed=allowed)
        if mount.target in targets:
            yield problem(f"{where}.target", None, f"{excerpt(mount.target)} is there twice")
        targets.add(mount.target)
        if not is_there(mount.source):
            yield problem(f"{where}.source", None, f"{excerpt(mount.source)} is not on this host")


def _variable_problems(policy: GatePolicy) -> Iterator[Fault]:
    variables = policy.variables
    for key, told in (("set", variables.set), ("force", variables.force)):
        for name, value in told.items():
            where = f"variables.{key}.{excerpt(name)}"
            if not _NAME.fullmatch(name) or "\0" in value:
                yield problem(where, None, "is no variable", allowed="a name without =, and no null character")
            elif name.startswith(_ASKS):
                yield problem(where, None, "is about GPUs, for which containers ask themselves")
            elif key == "set" and name in variables.force:
                yield problem(where, None, "is forced too")


def _line_of(document: Value, where: str) -> int | None:
    """That of a variable, whose name may hold dots."""
    _, key, name = where.split(".", 2)
    told = document.at(f"variables.{key}")
    found = told.content.get(name) if told and isinstance(told.content, dict) else told
    return found.line if found else None


def _refused(path: Path, problems: list[Fault]) -> SpecError:
    many = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
    return SpecError(
        f"{many} in the policy {excerpt(str(path))}",
        problems=tuple(changed(one, file=_POLICY) for one in problems),
        fix=f"correct {shlex.quote(str(path))}; docs/gate.md describes all keys",
    )
