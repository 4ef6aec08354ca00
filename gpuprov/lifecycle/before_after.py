"""What a module of Ansible's hands back: what changed, and the thing before and after."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.shapes.verify import Report


@dataclass(frozen=True, kw_only=True)
class BeforeAfter:
    """The result of bringing nodes to a state, or of saying what that would change.

    Attributes:
        changed: One line for each change.
        before: The nodes as they were.
        after: The nodes as they are; as they were, where nothing was changed.
        report: What `verify` says, where it was asked for and something was changed.
    """

    changed: tuple[str, ...] = ()
    before: tuple[NodeRow, ...] = field(default=())
    after: tuple[NodeRow, ...] = field(default=())
    report: Report | None = None
