"""What a node that takes jobs lacks for them, asked before anything is copied."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt, first_lines
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.roles.work.job_room import NOTHING
from gpuprov.roles.work.package_names import package_of
from gpuprov.roles.work.work_place import text_argv
from gpuprov.shapes.base import read
from gpuprov.shapes.lacks import Lacks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.roles.work.node_program import NodeProgram

_ASK_S: Final = 30.0
_SHOWN: Final = 10
_MODULES: Final = """
import importlib.util, json, sys
def lacks(name):
    try:
        return importlib.util.find_spec(name) is None
    except Exception:
        return False
print(json.dumps({"version": 1, "lacks": [name for name in json.load(sys.stdin) if lacks(name)]}))
"""
_COMPILER: Final = """
import json, shutil
print(json.dumps({"version": 1, "lacks": [] if shutil.which("g++") else ["g++"]}))
"""


def require_imports(controller: NodeProgram, imports: Mapping[str, str]) -> None:
    """Refuse a project that imports what nodes do not have; a node that does not tell is believed to have it.

    Args:
        controller: The node that takes the jobs; the others are made of the same image.
        imports: Where each module is imported, by name.

    Raises:
        UsageError: With each place.
    """
    lacking = _ask(controller, _MODULES, sorted(imports))
    if lacking:
        lines = [excerpt(f"{imports[name]}: {name}") for name in lacking]
        many = f"module {lacking[0]}" if len(lacking) == 1 else f"{len(lacking)} modules"
        raise UsageError(
            f"the nodes of {controller.cluster} do not have {many}, which the project imports; {NOTHING}",
            evidence=first_lines(lines, _SHOWN),
            fix=_renewed(f"image: {{python: [{', '.join(sorted(map(package_of, lacking[:_SHOWN])))}]}}"),
        )


def require_compiler(controller: NodeProgram) -> None:
    """Refuse a cluster whose nodes cannot build programs; a node that does not tell is believed to have a compiler.

    Raises:
        UsageError: And what to type.
    """
    if _ask(controller, _COMPILER, ["g++"]):
        raise UsageError(
            f"the nodes of {controller.cluster} have no compilers for programs; {NOTHING}",
            evidence=f"{controller.node} has no g++",
            fix=_renewed("image: {toolkit: true}"),
        )


def _renewed(key: str) -> str:
    """How nodes get another image."""
    return f"write `{key}` into the cluster's spec, and renew its nodes: gpuprov cluster up -f SPEC --renew"


def _ask(controller: NodeProgram, text: str, names: list[str]) -> list[str]:
    """Which of these the node says that it lacks."""
    if not names:
        return []
    limit_s = scaled_limit_s(_ASK_S)
    result = controller.driver.run(
        controller.node, text_argv(text), cwd="/", timeout_s=limit_s, stdin=json.dumps(names).encode()
    )
    try:
        told = read(Lacks, result.stdout)
    except ValueError:
        return []
    return [name for name in names if name in told.lacks]
