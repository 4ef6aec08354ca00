"""The command line of `python3 -m gpuwork.anneal`."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from gpuprov.shapes.limits import MOST_CHAINS
from gpuprov.shapes.limits import MOST_RUNS as MOST_PARTS


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse; argparse ends the program with status 2 where that is impossible."""
    return build_parser()[0].parse_args(arguments)


def build_parser() -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[argparse.ArgumentParser]]:
    """The parser, and its verbs."""
    parser = argparse.ArgumentParser(
        prog="python3 -m gpuwork.anneal",
        description="Simulated annealing of your own model, a chain for each thread.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    check = verbs.add_parser("check", help="all faults of models and configurations; executes and writes nothing")
    _add_wanted(check)
    check.add_argument("--json", action="store_true", help="as one document")
    check.add_argument("--to-run", action="store_true", help="also what a run needs, such as dimensions")
    check.add_argument("--here", action="store_true", help="also whether this machine has the packages that run it")
    run = verbs.add_parser("run", help="run on this machine, on each of its GPUs")
    _add_wanted(run)
    run.add_argument("--out", type=Path, metavar="FOLDER", help="a new folder; default anneal-runs/TIME")
    run.add_argument("--text", action="store_true", help="also write the results as text")
    prepare = verbs.add_parser("prepare", help="copy models and prepare their runs for a queue")
    _add_wanted(prepare)
    prepare.add_argument("--store", type=Path, required=True, metavar="FOLDER", help="that all nodes share")
    prepare.add_argument(
        "--parts", type=_parts, default=1, metavar="N", help="number of parts of the chains; default 1"
    )
    part = verbs.add_parser("part", help="part number N of a prepared folder, unless it is done; for queues and sbatch")
    _add_folder(part)
    part.add_argument("number", type=int, metavar="N", help="from 0; the parts of all runs, one after the other")
    merge = verbs.add_parser("merge", help="merge the results of all parts")
    _add_folder(merge)
    merge.add_argument("--text", action="store_true", help="also write the results as text")
    show = verbs.add_parser("show", help="how far runs are and what they found, as one document")
    _add_folder(show)
    show.add_argument("--series", action="store_true", help="also the best values over the steps, of 64 chains")
    verbs.add_parser("worker", help="serve a master of the predecessor; settings are environment variables")
    return parser, verbs


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of the runs")


def _add_wanted(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL", help="a Python file with the six functions")
    parser.add_argument(
        "--conf", type=Path, action="append", default=[], metavar="FILE", help="settings, YAML or HOCON; repeatable"
    )
    parser.add_argument("--chains", type=_chains, metavar="N", help="how many chains, in place of thread_count")
    parser.add_argument("--target", type=_target, metavar="VALUE", help="stop when a value is at or below this")


def _chains(text: str) -> int:
    return _whole(text, MOST_CHAINS)


def _parts(text: str) -> int:
    return _whole(text, MOST_PARTS)


def _whole(text: str, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {most}")
    return int(text)


def _target(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text} is not a number")
    return value
