"""Traces what a command calls: how many files of gpuprov it enters, how often one calls another, and how often upwards.

Usage: python -m benchmarks.trace_story [--write] [--climbs]

Each command is typed on the tests' fakes, on one host or over three, and what its functions call is counted: the
figures say nothing of time and are the same on every machine. A call counts where it leads from one file to another,
whatever of other packages is in between. It climbs where the other file is in a higher layer, by the contract of
imports in setup.cfg: imports point down, so this is a function that was handed down. Kinds of climbs are file pairs.
Prints a table in Markdown; with --write, brings that of docs/principles.md up to date; with --climbs, prints the pairs.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import threading
from configparser import ConfigParser
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gpuprov
from benchmarks.round_trips import NOTHING_RUNS, controller
from gpuprov.cli import session
from gpuprov.cli.main import main as run_gpuprov

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from benchmarks.round_trips import CountedHosts

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/principles.md"
BELOW = f"{Path(gpuprov.__file__).parent}/"
THREE = ("hoff", "hinton", "lecun")
SPEC = "version: gpuprov/v1\nhosts: [{}]\nnodes: {{count: 6}}\ngpus: {{mode: simulated}}\n"
HEADER = ("Command", "Files", "Calls from file to file", "Climbs", "Kinds of climbs")
NO_CALLS = ("<module>", "<genexpr>")  # an import, and the next thing of a generator that was handed over
UP = "`cluster up`, over three hosts"
# What is typed on one host, in this order
TYPED: Mapping[str, str] = {
    "`cluster up`": "cluster up -n 4 --gpu-mode simulated --no-verify",
    "`create-node`": "create-node c009 --gpus 0",
    "`rm`": "rm c009",
    "`verify`": "verify",
    "`submit`": "submit --no-project --gpus 0 -- true",
}


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What was called.

    Attributes:
        files: Those that were entered, below gpuprov/.
        calls: From which file to which other one, one by one.
    """

    files: frozenset[str]
    calls: tuple[tuple[str, str], ...]

    @property
    def climbs(self) -> list[tuple[str, str]]:
        """The calls from a file to one in a higher layer."""
        heights = _heights()
        return [pair for pair in self.calls if _height(pair[0], heights) < _height(pair[1], heights)]

    @property
    def figures(self) -> tuple[int, ...]:
        """Those of the table."""
        climbs = self.climbs
        return len(self.files), len(self.calls), len(climbs), len(set(climbs))


@cache
def _heights() -> Mapping[str, int]:
    """How high the layers are; those that do not import each other are side by side."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["importlinter:contract:layers"]["layers"].split("\n")
    return {layer.strip(): -number for number, line in enumerate(lines) for layer in line.split("|")}


def _height(file: str, heights: Mapping[str, int]) -> float:
    return heights.get(file.partition("/")[0], float("nan"))  # what is in no layer is neither above nor below


def trace(act: Callable[[], object]) -> Trace:
    """Do it, and note what is called, in all threads."""
    files: set[str] = set()
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(BELOW) or code.co_name in NO_CALLS:
            return
        files.add(code.co_filename)
        caller = frame.f_back
        while caller and not caller.f_code.co_filename.startswith(BELOW):
            caller = caller.f_back
        if caller and caller.f_code.co_filename != code.co_filename:
            calls.append((caller.f_code.co_filename, code.co_filename))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    here = len(BELOW)
    return Trace(files=frozenset(file[here:] for file in files), calls=tuple((a[here:], b[here:]) for a, b in calls))


def trace_all() -> dict[str, Trace]:
    """Trace each command once everything has been imported, and was done once."""
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            found = _trace_on_one(Path(folder))
        with tempfile.TemporaryDirectory() as folder:
            found[UP] = _trace_over_three(Path(folder))
    return found


def _trace_on_one(folder: Path) -> dict[str, Trace]:
    with controller(folder, THREE[:1]) as hosts, pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "remembered_hosts", dict)
        return {words: _type(hosts, line.split(), words, on=THREE[0]) for words, line in TYPED.items()}


def _trace_over_three(folder: Path) -> Trace:
    names = [f"{{name: {name}, internal_ip: 192.0.2.{number}}}" for number, name in enumerate(THREE, 11)]
    (folder / "spec").write_text(SPEC.format(", ".join(names)))
    with controller(folder, THREE) as hosts:
        return _type(hosts, ["cluster", "up", "-f", str(folder / "spec"), "--no-verify"], UP)


def _type(hosts: CountedHosts, argv: Sequence[str], words: str, on: str = "") -> Trace:
    host = hosts.worlds[on].host if on else hosts.controller
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        codes: list[int] = []
        found = trace(lambda: codes.append(run_gpuprov(argv, host=host)))
    if codes != [0] and words not in NOTHING_RUNS:
        raise SystemExit(f"gpuprov {' '.join(argv)}: exit status {codes}\n{said.getvalue()}")
    return found


def render(figures: Mapping[str, Sequence[int]]) -> str:
    """The table."""
    rows = [HEADER, ["---"] * len(HEADER), *([words, *map(str, found)] for words, found in figures.items())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def find_table(page: str) -> str:
    """The table in a page."""
    start = page.index(render({}))
    return page[start : page.index("\n\n", start)]


def read_table(table: str) -> dict[str, tuple[int, ...]]:
    """The figures in a table."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {words: tuple(map(int, found)) for words, *found in rows}


def main() -> None:
    """Trace all, and tell what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="bring the table of docs/principles.md up to date")
    parser.add_argument("--climbs", action="store_true", help="print from which file to which calls climb")
    asked = parser.parse_args()
    found = trace_all()
    table = render({words: one.figures for words, one in found.items()})
    sys.stdout.write(f"{table}\n")
    for words, one in found.items() if asked.climbs else ():
        kinds = sorted({f"{low} -> {high}" for low, high in one.climbs})
        sys.stdout.write("\n".join([f"\n{words}:", *kinds, ""]))
    if asked.write:
        page = PAGE.read_text()
        PAGE.write_text(page.replace(find_table(page), table))


if __name__ == "__main__":
    main()
