"""Python packages of a node image, as a user writes them: in the spec, or in a requirements file as pip reads it.

Only names with versions are taken. What else pip takes would make an image that nobody can build a second time
(paths, URLs), or would be judged by the wrong Python: pip looks at markers where it runs, which is the host.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES_MAX: Final = 200
FORM: Final = "NAME, NAME[EXTRA] or NAME with versions, such as torch==2.* or numpy>=1.26,<3"
_LENGTH_MAX: Final = 200
_FILE_MAX: Final = 64 * 1024  # bytes
_ANY_TEXT: Final = "==="  # compares letters: what follows need not be a version
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")


def find_package_problem(text: str) -> str:
    """What is wrong with a Python package; empty if nothing is."""
    from packaging.requirements import InvalidRequirement, Requirement  # late, for the sake of `gpuprov --help`

    shown = f"{text[:80]!r}"
    if len(text) > _LENGTH_MAX:
        return f"{shown} is longer than {_LENGTH_MAX} characters"
    if text.startswith("-"):
        return f"{shown} is an option of pip; set an index in pip's own configuration on the host"
    if "://" in text or "@" in text or "/" in text:
        return f"{shown} is a URL or a path; only packages of the index can be installed"
    if ";" in text:
        return f"{shown} has a marker, which pip would compare with the host's Python instead of the node's"
    try:
        clauses = Requirement(text).specifier
    except InvalidRequirement:
        clauses = None
    if clauses is None or text != text.strip() or any(clause.operator == _ANY_TEXT for clause in clauses):
        return f"{shown} is not a Python package"
    return ""


def read_requirements(path: Path) -> tuple[tuple[str, ...], list[str]]:
    """The packages of a requirements file, and everything that is wrong with it, in words that begin with its path."""
    try:
        if not path.is_file():
            return (), [f"{path} is not a file" if path.exists() else f"{path} does not exist"]
        with path.open("rb") as file:
            content = file.read(_FILE_MAX + 1)
        lines = content.decode().splitlines()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        return (), [f"{str(path)!r} cannot be read: {reason}"]
    if len(content) > _FILE_MAX:
        return (), [f"{path} is larger than {_FILE_MAX // 1024} KiB"]
    stripped = ((number, _COMMENT.sub("", line).strip()) for number, line in enumerate(lines, 1))
    entries = [(number, text) for number, text in stripped if text]
    if len(entries) > PACKAGES_MAX:
        return (), [f"{path} has {len(entries)} packages, more than {PACKAGES_MAX}"]
    found = [(number, text, find_package_problem(text)) for number, text in entries]
    problems = [f"{path} line {number}: {problem}" for number, _, problem in found if problem]
    return tuple(text for _, text, problem in found if not problem), problems
