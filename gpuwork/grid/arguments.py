"""The command line of `python3 -m gpuwork.grid`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

_MOST_REPS: Final = 1000


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse; argparse ends the program with status 2 where that is impossible."""
    return build_parser()[0].parse_args(arguments)


def build_parser() -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[argparse.ArgumentParser]]:
    """The parser, and its verbs."""
    parser = argparse.ArgumentParser(prog="python3 -m gpuwork.grid", description="Run a project's parameter grid.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    run = verbs.add_parser("run", help="run on this machine what is not done yet")
    _add_project(run)
    _add_wish(run)
    run.add_argument("--local", action="store_true", help="on this machine; no cluster is needed")
    run.add_argument("--at-most", type=_count, default=1, metavar="N", help="this many runs at once; default 1")
    prepare = verbs.add_parser(
        "prepare", help="freeze the project and prepare what is missing for a queue; JSON on stdout"
    )
    _add_project(prepare)
    _add_wish(prepare)
    prepare.add_argument(
        "--under-way", metavar="FILE", help="names of runs that wait or run elsewhere, one per line; - for stdin"
    )
    one = verbs.add_parser("one", help="run number N of a submission, unless it is done; for queues and sbatch")
    one.add_argument("folder", type=Path, metavar="FOLDER", help="of the submission, as `prepare` printed it")
    one.add_argument("number", type=int, metavar="N", help="from 0")
    results = verbs.add_parser("results", help="all runs as CSV on stdout")
    _add_project(results)
    return parser, verbs


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", type=_folder, metavar="PROJECT", help="the project's folder")
    parser.add_argument(
        "--share", type=_folder, metavar="FOLDER", help="keep runs in FOLDER/NAME/runs; default: in PROJECT/runs"
    )


def _add_wish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reps", type=_count, default=1, metavar="N", help="runs of each combination; default 1")
    parser.add_argument("--minimal", action="store_true", help="one run, of the defaults and what is for debugging")
    parser.add_argument("--first-only", action="store_true", help="only the first combination")


def _folder(text: str) -> Path:
    return Path(text).resolve()


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_REPS:
        raise argparse.ArgumentTypeError(f"{text} is no number from 1 to {_MOST_REPS}")
    return int(text)
