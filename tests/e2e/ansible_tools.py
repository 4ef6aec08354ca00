"""Ansible's own programs, as a user runs them in the top folder of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.e2e.conftest import Gpuprov

ROOT = Path(__file__).resolve().parents[2]


def ansible(gpuprov: Gpuprov, tool: str, *argv: str, variables: Mapping[str, str] | None = None) -> str:
    """Run one of Ansible's own programs in the top folder of the checkout, as README says."""
    tools = Path(sys.executable).parent
    environment = {**gpuprov.environment, "PATH": f"{tools}:{os.environ['PATH']}", **(variables or {})}
    done = subprocess.run(
        [tools / tool, *argv], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def write_inventory(folder: Path, nodes: Sequence[str]) -> str:
    """An inventory file that names these nodes `tried`; this machine may have others."""
    path = folder / "gpuprov.yml"
    path.write_text(f'plugin: gpuprov.cluster.gpuprov\ngroups: {{tried: "inventory_hostname in {nodes!r}"}}\n')
    return str(path)


def plain(value: Any) -> Any:
    """A value without the mark that Ansible shows on what must not be taken for a template."""
    if isinstance(value, dict):
        return value.get("__ansible_unsafe", {key: plain(item) for key, item in value.items()})
    return [plain(item) for item in value] if isinstance(value, list) else value
