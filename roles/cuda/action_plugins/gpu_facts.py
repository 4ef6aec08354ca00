"""Ansible action: the GPUs of a host that has Python alone, found by gpuprov's own code, sent there for it."""

from __future__ import annotations

import functools
import importlib.util
import io
import json
import shlex
import zipfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

PARTS = ("core", "spec", "gpu")  # of gpuprov, and none of them needs more than the standard library
# What is run is a file, which is gone when it ends: one command, and nothing to clean up after a lost connection.
RECEIVE = """
import runpy, sys, tempfile
with tempfile.NamedTemporaryFile(suffix=".pyz") as file:
    file.write(sys.stdin.buffer.read())
    file.flush()
    runpy.run_path(file.name, run_name="__main__")
"""
START = "import sys\nfrom gpuprov.gpu.facts import main\nsys.exit(main(sys.argv[1:]))\n"


@functools.cache
def program() -> bytes:
    """The zip that Python runs: those parts, and NVML's Python module."""
    with io.BytesIO() as content:
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("__main__.py", START)
            package = _folder("gpuprov")
            archive.write(package / "__init__.py", "gpuprov/__init__.py")
            for path in (path for part in PARTS for path in sorted((package / part).rglob("*"))):
                if path.suffix in {".py", ".json"}:
                    archive.write(path, f"gpuprov/{path.relative_to(package)}")
            archive.write(_folder("pynvml") / "pynvml.py", "pynvml.py")
        return content.getvalue()


def _folder(module: str) -> Path:
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise AnsibleActionFail(
            f"the Python that runs Ansible has no module {module}\n"
            "evidence: it cannot be imported\n"
            "fix: run ansible-playbook from the environment that gpuprov is installed in, or use gpuprov play"
        )
    return Path(found.origin).parent


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no type information
    """`gpu_facts: {mode: auto}` sets the fact `gpu_facts`."""

    _VALID_ARGS = frozenset({"mode"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:  # noqa: ANN401
        """Send the program, run it, read its answer."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        mode = {"choices": ["auto", "real", "simulated"], "default": "auto"}
        _, arguments = self.validate_argument_spec(argument_spec={"mode": mode})
        command = f"{_python(task_vars or {})} -c {shlex.quote(RECEIVE)} {arguments['mode']}"
        done = self._low_level_execute_command(command, in_data=program())
        return {**result, **judge(done)}


def _python(variables: dict[str, Any]) -> str:
    found = str(variables.get("ansible_python_interpreter", ""))
    return found if found.startswith("/") else "python3"


def judge(done: dict[str, Any]) -> dict[str, Any]:
    """Ansible's result from the program's exit status and answer."""
    try:
        document = json.loads(done["stdout"])
    except ValueError:
        lines = f"{done['stdout']}\n{done.get('stderr', '')}".split("\n")
        said = [line.strip() for line in lines if line.strip() and not line.startswith("Shared connection")]
        evidence = said[-1] if said else f"exit status {done['rc']} and no output"
        return _failed("the GPUs of this host could not be asked for", evidence, "python3 --version  # 3.10 or newer")
    if "error" in document:
        error = document["error"]
        return _failed(error["what"], error["evidence"], error["fix"])
    return {"changed": False, "ansible_facts": {"gpu_facts": document}}


def _failed(what: str, evidence: str, fix: str) -> dict[str, Any]:
    return {"failed": True, "msg": f"{what}\nevidence: {evidence}\nfix: {fix}"}
