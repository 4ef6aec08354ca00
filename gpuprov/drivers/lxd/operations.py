"""What LXD and Incus do in the background: waited for as long as they report progress."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import TimedOut
from gpuprov.core.silence_limit import more_patience, silence_limit_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.lxd.api import LxdApi

_ROUND_S = 30.0
_MOMENT_S = 0.05  # for an engine that answers before the round is over
_ENDED = 200  # and above; LXD: 1xx is still going on
_PROGRESS = "_progress"  # such as create_instance_from_image_unpack_progress


def wait_for_operation(
    api: LxdApi, look: Callable[[float], dict[str, Any]], deed: str, *, timeout_s: float | None
) -> dict[str, Any]:
    """The operation once it has ended.

    Args:
        look: Returns the operation as soon as it has ended, and after so many seconds as it is then.
        deed: What it does, in words.
        timeout_s: How long it may take; None for as long as it does not go without progress for the usual limit.

    Raises:
        TimedOut: It took longer; it goes on.
    """
    limit_s = silence_limit_s() if timeout_s is None else timeout_s
    began_s = moved_s = time.monotonic()
    before = None
    while True:
        operation = look(max(1.0, min(_ROUND_S, moved_s + limit_s - time.monotonic())))
        if operation["status_code"] >= _ENDED:
            return operation
        now_s, signs = time.monotonic(), (operation.get("updated_at"), operation.get("metadata"))
        if timeout_s is None and before not in (None, signs):
            moved_s = now_s
        before = signs
        time.sleep(_MOMENT_S)
        if now_s - moved_s >= limit_s:
            fix = f"inspect it: {api.command} operation show {operation.get('id')}"
            raise TimedOut(
                f"{api.engine} {_overdue(limit_s, patient=timeout_s is None)}: {deed}",
                evidence=f"operation {operation.get('id')}: {_state(operation)}, after {now_s - began_s:.0f} s",
                fix=f"{fix}; {more_patience(limit_s)}" if timeout_s is None else fix,
            )


def _overdue(limit_s: float, *, patient: bool) -> str:
    if patient:
        return f"reported no progress for {limit_s:g} s"
    return f"did not finish its operation within {limit_s:.0f} s"


def _state(operation: dict[str, Any]) -> str:
    said = operation.get("metadata") or {}
    progress = [str(value) for key, value in said.items() if key.endswith(_PROGRESS)]
    return ", ".join([str(operation.get("status")), *progress])
