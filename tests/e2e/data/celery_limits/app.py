"""An app that needs more of its worker than Celery's first steps: a process that it sets up, limits, an own queue."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded
from celery.signals import worker_process_init

app = Celery("app")
app.config_from_object("celeryconfig")
loaded: list[int] = []


@worker_process_init.connect
def load(**_: object) -> None:
    """Stand for a model that is loaded onto the GPU."""
    loaded.append(os.getpid())


@app.task
def model() -> list[object]:
    """Say in which process it was loaded, and in which one this is."""
    return [loaded, os.getpid()]


@app.task(soft_time_limit=1)
def soft() -> str:
    """Notice the limit."""
    try:
        time.sleep(600)
    except SoftTimeLimitExceeded:
        return "ended in order"
    return "not ended"


@app.task(time_limit=2)
def hard(marks: str) -> None:
    """Have a process, and no end."""
    nap(marks)


@app.task
def nap(marks: str) -> None:
    """The same without a limit."""
    child = subprocess.Popen(["sleep", "600"])
    Path(marks).write_text(f"{child.pid} {os.uname().nodename}\n")
    child.wait()
