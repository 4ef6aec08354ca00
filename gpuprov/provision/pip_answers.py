"""What pip says where it finds no wheels for an image, and what to do about it."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from typing import TYPE_CHECKING, Final

from gpuprov.provision.wheel_lock import OTHER_FILES

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_FOUND: Final = re.compile(r"No matching distribution found for (\S+)")
_CONFLICT: Final = re.compile("conflicting dependencies|ResolutionImpossible")
_OTHER_HASH: Final = "DO NOT MATCH THE HASHES"
_REASONS_BEGIN, _REASONS_END = "The conflict is caused by:", "To fix this you could try to:"
_REASONS_MAX: Final = 12


class ConflictReasons:
    """Keeps which package needs which version of another one; pip says it apart from its errors, and before them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._begun = False

    def hear(self, lines: Sequence[str]) -> None:
        """Listen to the next lines of pip."""
        for line in lines:
            if line.startswith((_REASONS_BEGIN, _REASONS_END)):
                self._begun = line.startswith(_REASONS_BEGIN)
            part = line.endswith(":") or (line.startswith("    ") and line.strip())  # not what it says as an error
            if self._begun and part and len(self.lines) < _REASONS_MAX:
                self.lines.append(line)


def is_conflict(evidence: str) -> bool:
    """Whether no versions fit each other, by pip's errors; an index that does not answer is none."""
    return bool(_CONFLICT.search(evidence) or (_NOT_FOUND.search(evidence) and "Retrying" not in evidence))


def decide_fix(evidence: str, python: str) -> str:
    """What helps, by pip's errors, where it did not find wheels for that Python."""
    pip = f"{sys.executable} -m pip"
    if _OTHER_HASH in evidence:
        return OTHER_FILES
    if _CONFLICT.search(evidence):
        return (
            "change versions in image.python so that they fit each other and those that gpuprov needs; all that they "
            "need must have wheels, because no package is built from source (docs/images.md)"
        )
    missing = _NOT_FOUND.search(evidence)
    # an index that does not answer has nothing either, and one without pip, which is fetched too, is none
    if missing and "Retrying" not in evidence and missing[1] != "pip":
        name = shlex.quote(missing[1])
        return (
            f"choose a version of {missing[1]} that has a wheel for Python {python} on {platform.machine()}, "
            f"because no package is built from source; or build one: {pip} wheel --no-deps --wheel-dir wheels {name}, "
            "then run the same command with PIP_FIND_LINKS=$PWD/wheels"
        )
    return f"check whether this machine can reach its package index: {pip} download --no-deps numpy"
