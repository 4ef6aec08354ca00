"""The inventory of one play: nodes reached through their engine, or this machine itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONNECTION = "gpuprov.cluster.gpuprov"  # of the collection that ships with gpuprov
LOCALHOST = "localhost"
# Debian's own Python, for it has the apt module's library; gpuprov's venv has not.
INTERPRETER = "/usr/bin/python3"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A machine that a play changes; `engine` is None for this machine."""

    name: str = LOCALHOST
    engine: str | None = None


def render_inventory(targets: Sequence[Target]) -> dict[str, object]:
    """The inventory document that Ansible reads."""
    return {"all": {"hosts": {target.name: _variables(target) for target in targets}}}


def _variables(target: Target) -> Mapping[str, str]:
    common = {"ansible_python_interpreter": INTERPRETER}
    if target.engine is None:
        return common | {"ansible_connection": "local"}
    return common | {"ansible_connection": CONNECTION, "ansible_user": "root", "gpuprov_engine": target.engine}
