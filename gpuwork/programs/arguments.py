"""The command line of `python3 -m gpuwork.programs`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import yaml

from gpuprov.shapes.limits import MOST_WORKERS


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse; argparse ends the program with status 2 where that is impossible."""
    return build_parser()[0].parse_args(arguments)


def build_parser() -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[argparse.ArgumentParser]]:
    """The parser, and its verbs."""
    parser = argparse.ArgumentParser(
        prog="python3 -m gpuwork.programs", description="CUDA programs, as JSON documents on stdout."
    )
    parser.add_argument(
        "--store", type=Path, default=default_store(), metavar="FOLDER", help="of the programs; default %(default)s"
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    check = verbs.add_parser("check", help="all faults of a program; writes nothing")
    _add_program(check)
    check.add_argument("--data", type=_path, metavar="FILE", help="a CSV file that is checked too")
    run = verbs.add_parser("run", help="run a program on this machine")
    _add_program(run)
    _add_run(run)
    prepare = verbs.add_parser("prepare", help="make the folder of a run whose workers are jobs")
    _add_program(prepare)
    _add_run(prepare)
    prepare.add_argument("--runs", type=_path, required=True, metavar="FOLDER", help="for the run")
    work = verbs.add_parser("work", help="be worker N of a run; worker 0 also leads it")
    work.add_argument("run", type=_path, metavar="RUN", help="as `prepare` printed it")
    work.add_argument("number", type=int, metavar="N", help="from 0")
    look = verbs.add_parser("look", help="how far a run is, or how it ended")
    look.add_argument("run", type=_path, metavar="RUN", help="as `prepare` printed it")
    drop = verbs.add_parser("drop", help="remove the data of a run whose jobs were cancelled")
    drop.add_argument("run", type=_path, metavar="RUN", help="as `prepare` printed it")
    pages = verbs.add_parser("pages", help="where Dask shows the latest run that is under way")
    pages.add_argument("runs", type=_path, metavar="FOLDER", help="as `prepare` got it")
    verbs.add_parser("list", help="all registered programs")
    remove = verbs.add_parser("rm", help="remove a registered program")
    remove.add_argument("hash", metavar="HASH", help="of the program, or its first 6 characters or more")
    return parser, verbs


def default_store() -> Path:
    """Where programs are registered on a machine that is no node."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwork/programs"


def _add_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", type=_path, metavar="DIR", help="the program's folder")
    parser.add_argument(
        "--set", dest="settings", type=_setting, action="append", default=[], metavar="NAME=VALUE",
        help="a setting; VALUE is a number, true, false, null or text, as in YAML; repeatable",
    )  # fmt: skip


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=_path, metavar="FILE", help="a CSV file of numbers")
    parser.add_argument("--workers", type=_count, metavar="N", help="default: the GPUs that this machine has, or 1")


def _path(text: str) -> Path:
    return Path(text).resolve()


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {MOST_WORKERS}")
    return int(text)


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    return name, _scalar(value)


def _scalar(text: str) -> Any:  # noqa: ANN401  (as YAML has it)
    try:
        return float(text) if "." not in text and "e" in text.lower() else _as_yaml(text)
    except ValueError:
        return _as_yaml(text)


def _as_yaml(text: str) -> Any:  # noqa: ANN401
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float | str) or value is None else text
