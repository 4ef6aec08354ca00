"""Submits as jobs the runs of a grid that are missing: finds what is under way, prepares the others, hands them in.

`gpuprov grid run` sends this text into the node that takes jobs, where the package of the node's image answers it. That
may be an older one, so the text asks the programs for jobs and grids by their verbs and documents alone.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuwork.grid.cli import main as grid_program
from gpuwork.jobs.cli import main as jobs_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FOLDER: Final = "{folder}"  # a word of the command: the folder of the runs that were prepared
_LIVE: Final = ("waiting", "running")


class Complained(Exception):
    """A program said no; its document is that of an error."""

    def __init__(self, document: dict[str, Any]) -> None:
        """Keep the document."""
        super().__init__()
        self.document = document


def main() -> int:
    """Do what the document on stdin asks for, print one on stdout, and return the exit code."""
    try:
        document = submit_missing(json.loads(sys.stdin.buffer.read()))
    except Complained as complaint:
        document = complaint.document
    sys.stdout.write(json.dumps(document) + "\n")
    return int(document.get("error", {}).get("exit_code", 0))


def submit_missing(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was submitted, and what was not missing.

    Args:
        asked: `project`, the `store` of its runs, the folder of `jobs`, `options` of the verb `prepare`, and the
            `order` of the jobs, in whose command `FOLDER` is a word.

    Raises:
        Complained: A program refused, or could not read or write its folder.
    """
    under_way = find_under_way(asked)
    options = ["--store", asked["store"], "--under-way", "-", *asked["options"]]
    prepared = _ask(grid_program, ["prepare", asked["project"], *options], "\n".join(under_way))
    number = None
    if prepared["runs"]:
        command = [prepared["folder"] if word == FOLDER else word for word in asked["order"]["command"]]
        order = {**asked["order"], "command": command, "count": len(prepared["runs"])}
        number = _ask_jobs(asked, "submit", stdin=json.dumps(order))["id"]
    counts = {name: prepared[name] for name in ("runs", "done", "under_way", "other_code")}
    project = Path(asked["store"]).parent.name
    return {"schema": "gpuprov.grid-submitted/v1", "version": 1, "project": project, "id": number, **counts}


def find_under_way(asked: Mapping[str, Any]) -> list[str]:
    """The names of runs that wait or run: those of jobs with the order's name and command."""
    listed = [job for job in _ask_jobs(asked, "list")["jobs"] if job["name"] == asked["order"]["name"]]
    ids = {job["id"].partition(".")[0]: None for job in listed if job["state"] in _LIVE}
    if not ids:
        return []
    shown = _ask_jobs(asked, "show", *ids)
    folders = Path(asked["store"]).resolve() / ".submissions"
    prepared = _ask(grid_program, ["list", asked["store"]])["submissions"]
    runs: dict[str, list[str]] = {}
    for submission in shown["submissions"]:
        folder = _folder_in(submission["order"]["command"], asked["order"]["command"])
        runs[submission["id"]] = prepared.get(folder.name, []) if folder.parent == folders else []
    found: list[str] = []
    for job in shown["jobs"]:
        number, _, run = job["id"].partition(".")
        if job["state"] in _LIVE:
            found += runs[number][int(run or 0) :][:1]
    return found


def _folder_in(command: Sequence[str], words: Sequence[str]) -> Path:
    """What a command has in the place of `FOLDER`; an empty path unless it begins with the same words."""
    at = words.index(FOLDER)
    is_like = [*command[:at], FOLDER, *command[at + 1 : at + 2]] == [*words[: at + 2]]
    return Path(command[at] if is_like else "")


def _ask_jobs(asked: Mapping[str, Any], *arguments: str, stdin: str = "") -> dict[str, Any]:
    return _ask(jobs_program, ["--folder", asked["jobs"], *arguments], stdin)


def _ask(program: Callable[[list[str]], int], arguments: list[str], stdin: str = "") -> dict[str, Any]:
    """The document that a program prints."""
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with redirect_stdout(io.StringIO()) as out:
            code = program(arguments)
    finally:
        sys.stdin = before
    if not out.getvalue():  # it was interrupted
        raise SystemExit(code)
    document: dict[str, Any] = json.loads(out.getvalue())
    if "error" in document:
        raise Complained(document)
    return document


if __name__ == "__main__":
    sys.exit(main())
