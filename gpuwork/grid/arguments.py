"""The command line of `python3 -m gpuwork.grid`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

_MOST_REPS: Final = 1000
_MOST_RETRIES: Final = 100


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse; argparse ends the program with status 2 where that is impossible."""
    return build_parser()[0].parse_args(arguments)


def build_parser() -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[argparse.ArgumentParser]]:
    """The parser, and its verbs."""
    parser = argparse.ArgumentParser(prog="python3 -m gpuwork.grid", description="Run a project's parameter grid.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    run = verbs.add_parser("run", help="run, on this machine, what is not done yet")
    _add_project(run)
    _add_wish(run)
    run.add_argument("--local", action="store_true", help="on this machine; no cluster is needed")
    run.add_argument("--at-most", type=_count, default=1, metavar="N", help="this many runs at once; default 1")
    check = verbs.add_parser("check", help="all faults of the project and what it asks for; writes nothing")
    _add_folder(check)
    _add_choice(check)
    check.add_argument("--here", action="store_true", help="also whether this machine has the modules that it imports")
    prepare = verbs.add_parser("prepare", help="freeze the project and prepare what is missing for a queue")
    _add_project(prepare).add_argument(
        "--store",
        type=_folder,
        metavar="FOLDER",
        help="keep runs in FOLDER; the folder above it has the project's name",
    )
    _add_wish(prepare)
    prepare.add_argument(
        "--under-way", metavar="FILE", help="names of runs that wait or run elsewhere, one per line; - for stdin"
    )
    one = verbs.add_parser("one", help="run number N of a submission, unless it is done; for queues and sbatch")
    one.add_argument("folder", type=Path, metavar="FOLDER", help="of the submission, as `prepare` printed it")
    one.add_argument("number", type=int, metavar="N", help="from 0")
    one.add_argument(
        "--retries", type=_retries, default=0, metavar="N", help="leave a run that failed open for N more tries"
    )
    results = verbs.add_parser("results", help="all runs as CSV on stdout")
    _add_project(results)
    for verb, about in (("list", "all runs of a store"), ("series", "the series of a store's runs, thinned out")):
        verbs.add_parser(verb, help=about).add_argument("store", type=_folder, metavar="STORE", help="of a project")
    return parser, verbs


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", type=_folder, metavar="PROJECT", help="the project's folder")


def _add_project(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    _add_folder(parser)
    places = parser.add_mutually_exclusive_group()
    places.add_argument(
        "--share", type=_folder, metavar="FOLDER", help="keep runs in FOLDER/NAME/runs; default: in PROJECT/runs"
    )
    return places


def _add_wish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reps", type=_count, default=1, metavar="N", help="runs of each combination; default 1")
    _add_choice(parser)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--minimal", action="store_true", help="one run, with the defaults and the values for debugging"
    )
    parser.add_argument("--first-only", action="store_true", help="only the first combination")


def _folder(text: str) -> Path:
    return Path(text).resolve()


def _retries(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > _MOST_RETRIES:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to {_MOST_RETRIES}")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_REPS:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {_MOST_REPS}")
    return int(text)
