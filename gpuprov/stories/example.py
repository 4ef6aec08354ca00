"""`example`: files to start from, which ship with gpuprov."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LAB: Final = ("hosts.yml", "group_vars/lab.yml", "README.md")
_PLAYBOOK: Final = """\
---
# The playbook of the installed gpuprov, and where its reports go: below the folder in which this is run.
- name: Set up the lab
  ansible.builtin.import_playbook: {playbook}
  vars:
    lab_reports: "{{{{ lookup('ansible.builtin.env', 'PWD') }}}}/reports"
"""


def write_lab(folder: Path) -> Outcome:
    """Write an inventory of lab hosts, its variables and a playbook; what is there already and the same is left.

    Raises:
        UsageError: Something else is in the folder.
        HostNotReady: It cannot be written.
    """
    source = get_asset("inventories") / "./lab"
    playbook = get_asset("roles").parent / "lab.yml"
    files = {name: (source / name).read_bytes() for name in _LAB}
    files["lab.yml"] = _PLAYBOOK.format(playbook=json.dumps(str(playbook))).encode()
    return _write(folder, files, verb="gpuprov example lab")


def write_program(folder: Path) -> Outcome:
    """Write a CUDA program that sums a column; what is there already and the same is left.

    Raises:
        UsageError: Something else is in the folder.
        HostNotReady: It cannot be written.
    """
    source = get_asset("templates") / "program"
    files = {path.name: path.read_bytes() for path in sorted(source.iterdir()) if path.is_file()}
    return _write(folder, files, verb="gpuprov example program")


def _write(folder: Path, wanted: Mapping[str, bytes], *, verb: str) -> Outcome:
    try:
        there = _read(folder, wanted)
        foreign = sorted(name for name, content in there.items() if wanted.get(name) != content)
        if foreign:
            raise UsageError(
                f"{folder} is not empty",
                evidence=f"it has {foreign[0]}" + (f" and {len(foreign) - 1} more" if foreign[1:] else ""),
                fix=f"name a new folder: {verb} FOLDER",
            )
        missing = [name for name in wanted if name not in there]
        for name in missing:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wanted[name])
    except (OSError, ValueError) as error:  # a NUL in its name
        raise HostNotReady(
            f"cannot write the example to {folder}",
            evidence=str(error),
            fix=f"ls -ld {folder}; or name another folder: {verb} FOLDER",
        ) from error
    return Outcome(changed=tuple(f"wrote {folder / name}" for name in missing))


def _read(folder: Path, wanted: Mapping[str, bytes]) -> dict[str, bytes]:
    """What is below a folder, as far as it can be one of ours; anything else as nothing that is ours."""
    found: dict[str, bytes] = {}
    if not folder.is_symlink() and not folder.exists():
        return found
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            inside = {f"{path.name}/{file.name}": file for file in path.iterdir()} or {path.name: path}
        else:
            inside = {path.name: path}
        for name, file in inside.items():
            known = name in wanted and file.is_file() and not file.is_symlink()
            found[name] = file.read_bytes() if known else b""
    return found
