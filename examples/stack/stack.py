"""One copy of the example stack: a trainer with a GPU of its own, two policies and two simulations without.

Each service is a job of `gpuprov run`. Usage: python3 stack.py NAME [--image IMAGE]; Ctrl-C ends all of it.
"""

# ruff: noqa: INP001 - a script, not part of a package
from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
TRAINER = ("HOUDINI_GPU_REQUESTED=1",)
SERVICES = {"trainer": TRAINER, "policy-0": (), "policy-1": (), "simulation-0": (), "simulation-1": ()}


def start(copy: str, service: str, variables: tuple[str, ...], image: str | None, peers: str) -> subprocess.Popen[str]:
    """Start one service as a job."""
    options = [part for variable in variables for part in ("--env", variable)]
    options += ["--image", image] if image else []
    mounts = ("--mount", f"{FOLDER}:/srv/stack:ro", "--mount", f"{peers}:/srv/peers")
    command = ("python3", "/srv/stack/service.py", f"{copy}-{service}", "/srv/peers")
    argv = ("gpuprov", "--quiet", "run", *options, *mounts, "--", *command)
    # a session of its own: Ctrl-C is for this script, which then ends its jobs
    return subprocess.Popen(  # noqa: S603 - as above
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def pass_on(job: subprocess.Popen[str]) -> None:
    """Hand on what a service says."""
    for line in job.stdout or ():
        sys.stdout.write(line)
        sys.stdout.flush()


def main() -> int:
    """Run the copy until it is ended, or until one of its services ends; the status is that of the first to end."""
    parser = argparse.ArgumentParser(description="runs one copy of the example stack")
    parser.add_argument("name", help="of this copy, such as a")
    parser.add_argument("--image", help="with python3 in it; gpuprov's own if unsaid")
    wanted = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ended = threading.Event()
    with tempfile.TemporaryDirectory(prefix="stack-") as peers:
        jobs = [start(wanted.name, service, asked, wanted.image, peers) for service, asked in SERVICES.items()]

        def follow(job: subprocess.Popen[str]) -> None:
            pass_on(job)
            job.wait()
            ended.set()

        threads = [threading.Thread(target=follow, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        try:
            ended.wait()
            return next(job.returncode for job in jobs if job.poll() is not None)
        except KeyboardInterrupt:
            return 130
        finally:
            for job in jobs:
                job.terminate()
            for thread in threads:
                thread.join()


if __name__ == "__main__":
    sys.exit(main())
