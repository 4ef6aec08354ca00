"""A process of a run beside the one that leads it: Dask's scheduler, or a worker. It ends when its leader does."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from gpuwork.errors import WorkError
from gpuwork.leash import on_leash_end
from gpuwork.programs.meet import serve_scheduler, serve_worker
from gpuwork.programs.run_folder import read_run_folder

_ENDED: Final = 143


def main(*arguments: str) -> None:
    """Serve until the leader ends."""
    parser = argparse.ArgumentParser(prog="gpuwork.programs.part")
    parser.add_argument("part", choices=("scheduler", "worker"))
    parser.add_argument("run", type=Path)
    parser.add_argument("--number", type=int, default=0)
    asked = parser.parse_args(arguments)
    on_leash_end(lambda: os._exit(_ENDED))
    try:
        run = read_run_folder(asked.run)
        sys.exit(serve_scheduler(run) if asked.part == "scheduler" else serve_worker(run, asked.number))
    except WorkError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
