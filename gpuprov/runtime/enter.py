"""A process enters a container, as by `docker exec --privileged`: what a policy refuses of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.runtime.edit import LEASE, POLICY
from gpuprov.runtime.judge import judge_process, require_allowed
from gpuprov.runtime.rules import EVERYTHING, read_rules

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_MOST_BYTES: Final = 64_000_000


def require_entry(folder: Path, process: Path, *, state: Path, touch: str) -> None:
    """Go on if the policy has nothing against a process.

    Args:
        folder: Of the runtime's own files.
        process: The file in which the engine describes it.
        state: Where runc keeps its state of the container.
        touch: Whom the policy touches.

    Raises:
        UsageError: It refuses it.
        HostNotReady: It cannot be judged.
    """
    told = _read(process)
    there = _read(state / "state.json")
    config = there.get("config") or {}
    if touch != EVERYTHING and not _is_touched(config.get("labels") or []):
        return
    require_allowed(judge_process(told, read_rules(folder).refuse, config.get("capabilities")))


def _is_touched(labels: Iterable[object]) -> bool:
    return any(str(label).startswith((f"{POLICY}=", f"{LEASE}=")) for label in labels)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES} bytes")  # noqa: TRY301
        return dict(json.loads(content))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise HostNotReady(
            "the process cannot be judged", evidence=f"{path}: {error}", fix="gpuprov gate check"
        ) from error
