"""Runs a `params.py` in a process of its own and reads what its dictionaries are then."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Final

from gpuprov.shapes.limits import MIB
from gpuwork.grid.params_file import NAMES, Evaluated, NotEvaluated
from gpuwork.grid.values import Foreign
from gpuwork.packages import is_there
from gpuwork.program import program_argv

_LIMIT_S: Final = 60
_LIMIT_BYTES: Final = 32 * MIB


def run_params(path: Path, *, project: Path, limit_s: float = _LIMIT_S) -> Evaluated:
    """The dictionaries of a `params.py`; what it prints goes to stderr.

    Raises:
        NotEvaluated: It failed, or took longer than a file of parameters may take.
    """
    argv = program_argv("gpuwork.grid.run_params", str(path), str(project))
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(  # noqa: S603  (the user's own file)
            argv, stdin=subprocess.DEVNULL, stdout=told, cwd=project, start_new_session=True
        )
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise NotEvaluated(f"it still ran after {limit_s:g} s", line=None) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        size = os.fstat(told.fileno()).st_size
        told.seek(0)
        if size > _LIMIT_BYTES:
            raise NotEvaluated(f"its dictionaries have {size} bytes, more than {_LIMIT_BYTES}", line=None)
        try:
            answer = json.loads(told.read())
        except ValueError:
            raise NotEvaluated(f"it ended with exit status {process.returncode}", line=None) from None
    if "error" in answer:
        raise NotEvaluated(answer["error"], line=answer["line"], lacks=answer["lacks"])
    return {name: {_decode(key): _decode(value) for key, value in pairs} for name, pairs in answer["found"].items()}


def main(path: str, project: str) -> None:
    """In the process of its own: run the file, write what it holds."""
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path[:0] = [project, str(Path(path).parent)]
    sys.dont_write_bytecode = True
    try:
        module = runpy.run_path(path)
    except BaseException as error:  # noqa: BLE001  (whatever the file does)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        answer: dict[str, object] = {"error": f"{type(error).__name__}: {error}"[:1000], "line": line}
        answer["lacks"] = _find_lacked(error)
    else:
        found = {name: module[name] for name in NAMES if isinstance(module.get(name), dict)}
        answer = {
            "found": {
                name: [[_encode(key), _encode(item)] for key, item in part.items()] for name, part in found.items()
            }
        }
    with told:
        json.dump(answer, told)


def _find_lacked(error: BaseException) -> str | None:
    """The module that was looked for in vain, unless only a part of it is missing."""
    top = error.name.partition(".")[0] if isinstance(error, ModuleNotFoundError) and error.name else ""
    return top if top and not is_there(top) else None


def _encode(value: object) -> object:
    """JSON that keeps tuples, lists and what is neither apart; a number of numpy is one of Python's."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)
    if type(value) in (tuple, list):
        return {type(value).__name__: [_encode(item) for item in value]}  # type: ignore[attr-defined]
    return {"dict": []} if isinstance(value, dict) else {"foreign": f"{type(value).__module__}.{type(value).__name__}"}


def _decode(told: object) -> object:
    if not isinstance(told, dict):
        return told
    content: Any
    ((kind, content),) = told.items()
    if kind == "foreign":
        return Foreign(f"an object of type {content.removeprefix('builtins.')}")
    if kind == "dict":
        return {}
    return [*map(_decode, content)] if kind == "list" else tuple(map(_decode, content))
