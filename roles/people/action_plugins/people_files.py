"""Ansible action: accounts, keys and homes of people on a host, from the rules and files that nodes have."""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

try:
    from gpuprov.cluster.people_files import people_files
    from gpuprov.drivers.base import File
    from gpuprov.spec.people import read_people
except ImportError as error:  # of another environment
    raise AnsibleActionFail(
        "the Python that runs Ansible has no module gpuprov\n"
        f"evidence: {error}\n"
        "fix: run ansible-playbook from the environment that gpuprov is installed in, or use gpuprov play"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterable

ROLES = Path(__file__).parents[2]
PROGRAMS = ROLES / "base/files/programs"
SSHD = "etc/ssh/sshd_config.d/gpuprov-people.conf"
SCRIPT = ROLES / "people/files/settle.sh"
TAKEN = 3
SPEC = {
    "people": {"type": "list", "elements": "dict", "required": True},
    "homes": {"type": "path", "required": True},
    "makes_homes": {"type": "bool", "required": True},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no type information
    """`people_files: {people: [...], homes: /home, makes_homes: true}`."""

    _VALID_ARGS = frozenset(SPEC)

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:  # noqa: ANN401
        """Refuse what is wrong with the list, then send a tar, and have the host unpack it."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(argument_spec=SPEC)
        people, faults = read_people(json.loads(json.dumps(arguments["people"])), Path("/"))
        if faults:
            return {**result, **_failed("the list of people is wrong", "\n".join(faults), "correct lab_people")}
        files = people_files(people, shared=False, login=True, homes=arguments["homes"])
        if not arguments["makes_homes"]:
            files = tuple(replace(file, content=b"") if file.path.endswith("/folders") else file for file in files)
        verb = "check" if self._task.check_mode else "apply"
        command = f"/bin/sh -c {shlex.quote(SCRIPT.read_text(encoding='utf-8'))} sh {verb}"
        done = self._low_level_execute_command(command, in_data=pack((*files, *own_files())))
        return {**result, **judge(done)}


def own_files() -> tuple[File, ...]:
    """What hosts need besides: the programs of nodes, and sshd's setting."""
    programs = sorted(path for path in PROGRAMS.rglob("*") if path.is_file())
    found = [File(path=f"/{path.relative_to(PROGRAMS)}", content=path.read_bytes(), mode=0o755) for path in programs]
    return (*found, File(path=f"/{SSHD}", content=(ROLES / "base/files/rootfs" / SSHD).read_bytes()))


def pack(files: Iterable[File]) -> bytes:
    """A tar of files alone, so that folders that are there keep what they are; the same each time."""
    with io.BytesIO() as content:
        with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for file in files:
                member = tarfile.TarInfo(file.path.lstrip("/"))
                member.size, member.mode, member.uid, member.gid = len(file.content), file.mode, file.uid, file.gid
                member.mtime = 946684800  # 2000-01-01
                archive.addfile(member, io.BytesIO(file.content))
        return content.getvalue()


def judge(done: dict[str, Any]) -> dict[str, Any]:
    """Ansible's result from the script's exit status and words."""
    said = [line.strip().partition(": ") for line in str(done["stdout"]).splitlines()]
    told = {key: [value for other, _, value in said if other == key] for key, _, _ in said}
    if done["rc"] == TAKEN and "taken" in told:
        fix = "give these people other names and numbers in lab_people"
        return _failed("the host has accounts or groups of its own for people", "\n".join(told["taken"]), fix)
    if done["rc"] or "changed" not in told:
        lines = f"{done['stdout']}\n{done.get('stderr', '')}".strip().splitlines()
        evidence = "\n".join(lines[-5:]) or f"exit status {done['rc']} and no output"
        return _failed("people could not be set up on this host", evidence, "look at the host, and run it again")
    return {"changed": told["changed"] == ["yes"], "troubles": told.get("trouble", [])}


def _failed(what: str, evidence: str, fix: str) -> dict[str, Any]:
    return {"failed": True, "msg": f"{what}\nevidence: {evidence}\nfix: {fix}"}
