"""The command line of `python3 -m gpuwork.jobs`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from gpuwork.broker_file import BROKER

FOLDER: Final = Path("/shared/jobs")
ANSWER_S: Final = 5  # that workers have to answer
_LONGEST_S: Final = 24 * 3600


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse; argparse ends the program with status 2 where that is impossible."""
    return build_parser()[0].parse_args(arguments)


def build_parser() -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[argparse.ArgumentParser]]:
    """The parser, and its verbs."""
    parser = argparse.ArgumentParser(
        prog="python3 -m gpuwork.jobs", description="Jobs of this node's cluster, as JSON documents on stdout."
    )
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, metavar="FOLDER", help=f"that holds the jobs; default {FOLDER}"
    )
    parser.add_argument(
        "--broker", type=Path, default=BROKER, metavar="FILE",
        help=f"with the URL of the workers' broker; without such a file jobs are Slurm's; default {BROKER}",
    )  # fmt: skip
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("check", help="all faults of the order on stdin and of its project; writes nothing")
    verbs.add_parser("submit", help="submit what the order on stdin asks for")
    listed = verbs.add_parser("list", help="all jobs")
    listed.add_argument("--live", action="store_true", help="only jobs that wait or run")
    _with_ids(verbs.add_parser("show", help="show jobs and their orders"))
    logs = verbs.add_parser("logs", help="what a job printed, a piece at a time")
    logs.add_argument("id", metavar="ID", help="of the job")
    logs.add_argument("--from", dest="start", type=_position, default=0, metavar="BYTE", help="begin here; default 0")
    _with_ids(verbs.add_parser("cancel", help="end jobs, and wait until they have ended"))
    _with_ids(verbs.add_parser("rm", help="remove ended submissions, with their folders"))
    tidy = verbs.add_parser("tidy", help="remove submissions that ended longer ago, with their folders")
    tidy.add_argument(
        "--keep", type=_age, required=True, metavar="SECONDS", help="keep submissions that ended within this time"
    )
    wait = verbs.add_parser("wait", help="wait until jobs have ended")
    _with_ids(wait)
    workers = verbs.add_parser("workers", help="the workers that answer")
    help_ = "stop waiting when this many have answered, and send them no tasks"
    workers.add_argument("--expect", type=_number, metavar="N", help=help_)
    workers.add_argument(
        "--within", type=_seconds, default=ANSWER_S, metavar="SECONDS", help=f"wait no longer; default {ANSWER_S}"
    )
    wait.add_argument("--limit", type=_seconds, required=True, metavar="SECONDS", help="wait no longer than this")
    return parser, verbs


def _with_ids(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="7 stands for all runs of submission 7, 7.3 for its run 3")


def _number(text: str) -> int:
    return _whole(text, 10**6)


def _age(text: str) -> int:
    return _whole(text, 10**9)


def _position(text: str) -> int:
    return _whole(text, 2**62)


def _seconds(text: str) -> int:
    return _whole(text, _LONGEST_S)


def _whole(text: str, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > most:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number up to {most}")
    return int(text)
