"""The command line of `python3 -m gpuwork.worker`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final

from gpuwork.broker_file import BROKER
from gpuwork.jobs.arguments import FOLDER

_UUID: Final = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]{4,80}")
_MODULE: Final = re.compile(r"[A-Za-z_][\w.]{0,200}(:[A-Za-z_]\w{0,100})?")


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse; argparse ends the program with status 2 where that is impossible."""
    parser = argparse.ArgumentParser(
        prog="python3 -m gpuwork.worker", description="Takes work from the queue of a cluster, for one GPU."
    )
    parser.add_argument("--gpu", type=_uuid, required=True, metavar="UUID", help="of the GPU that its work sees")
    parser.add_argument("--log", type=Path, required=True, metavar="FILE", help="append its log to this file")
    parser.add_argument(
        "--broker", type=Path, default=BROKER, metavar="FILE", help=f"with the broker's URL; default {BROKER}"
    )
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, metavar="FOLDER", help=f"that holds the jobs; default {FOLDER}"
    )
    parser.add_argument(
        "--project", type=Path, metavar="FOLDER",
        help="whose functions `gpuwork.call` calls, once it is there; restart when it changes",
    )  # fmt: skip
    parser.add_argument(
        "--app", type=_module, metavar="MODULE", help="of the project, that has a Celery app; serve its tasks too"
    )
    parser.add_argument(
        "--scrub", action="store_true", help="have its memory overwritten between people; serve no project"
    )
    parser.add_argument("--leashed", action="store_true", help="end as on SIGTERM when stdin ends")
    asked = parser.parse_args(arguments)
    if asked.app and not asked.project:
        parser.error("--app needs --project")
    return asked


def _uuid(text: str) -> str:
    return _matching(_UUID, text, "the UUID of a GPU")


def _module(text: str) -> str:
    return _matching(_MODULE, text, "a module of Python, such as app, or app:celery")


def _matching(pattern: re.Pattern[str], text: str, what: str) -> str:
    if not pattern.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!a} is not {what}")
    return text
