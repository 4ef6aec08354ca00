"""What a node says that it lacks is refused; it is asked by a program that is sent into it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import ExecResult
from gpuprov.roles.work.node_contents import require_compiler, require_imports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.roles.work.node_program import NodeProgram


def controller(said: str | None = None, **env: str) -> NodeProgram:
    """A node that says this, or what the program says here."""

    def run(_node: str, argv: Sequence[str], **given: Any) -> ExecResult:
        assert given["timeout_s"] > 0
        if said is not None:
            return ExecResult(exit_code=0, stdout=said, stderr="")
        argv = [sys.executable, *argv[argv.index("python3") + 1 :]]
        done = subprocess.run(argv, input=given["stdin"], capture_output=True, check=False, env=env)
        return ExecResult(exit_code=done.returncode, stdout=done.stdout.decode(), stderr=done.stderr.decode())

    return cast("NodeProgram", SimpleNamespace(driver=SimpleNamespace(run=run), node="c000", cluster="lab"))


def test_modules_that_a_node_lacks_are_refused_with_their_places() -> None:
    with pytest.raises(UsageError) as refused:
        require_imports(controller(), {"pytest": "a.py:1", "no_such_module": "b.py:2", "json": "a.py:3"})
    assert refused.value.what.startswith("the nodes of lab do not have module no_such_module, which the project")
    assert refused.value.evidence == "b.py:2: no_such_module"
    assert "`image: {python: [no_such_module]}`" in (refused.value.fix or "")


def test_a_module_is_lacked_and_its_package_is_installed() -> None:
    said = '{"version": 1, "lacks": ["cv2", "sklearn", "einops"]}'
    with pytest.raises(UsageError) as refused:
        require_imports(controller(said), {"sklearn": "a.py:1", "cv2": "a.py:2", "einops": "a.py:3"})
    assert refused.value.evidence == "a.py:2: cv2\na.py:3: einops\na.py:1: sklearn"
    assert "`image: {python: [einops, opencv-python-headless, scikit-learn]}`" in (refused.value.fix or "")


@pytest.mark.parametrize("said", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "lacks": ["other"]}', "[" * 10**5])
def test_a_node_that_says_something_else_has_them(said: str) -> None:
    require_imports(controller(said), {"torch": "a.py:1"})
    require_compiler(controller(said))


def test_a_project_without_imports_asks_nothing() -> None:
    require_imports(cast("NodeProgram", None), {})


def test_a_node_without_a_compiler_takes_no_program() -> None:
    with pytest.raises(UsageError) as refused:
        require_compiler(controller(PATH="/no/where"))
    assert (refused.value.evidence, "image: {toolkit: true}" in (refused.value.fix or "")) == ("c000 has no g++", True)
