"""What a verb has done or found over several hosts, and why some hosts lack in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprov.cli.documents import Shown
    from gpuprov.cli.session import Session
    from gpuprov.core.errors import GpuprovError


def show_result(session: Session, document: Shown, text: str, error: GpuprovError | None, code: int = 0) -> int:
    """Show it, and end with the error of the hosts that lack in it, or else with the code."""
    if error is not None:
        from gpuprov.cli.failure import fail

        return fail(session, error, result=document, text=text)
    session.show(document, text)
    return code
