"""The program: a Celery worker for one GPU, until it is told to end."""

from __future__ import annotations

import logging
import os
import platform
import signal
import sys
import threading
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from celery import signals
from celery.exceptions import CPendingDeprecationWarning
from celery.worker import state

from gpuwork.broker import check_url, hide_password, own_queue
from gpuwork.broker_file import read_broker
from gpuwork.errors import Elsewhere, StoreError, WorkError
from gpuwork.jobs.leftovers import WORKER_VARIABLE, end_leftovers, find_marked
from gpuwork.jobs.store import writing
from gpuwork.leash import on_leash_end
from gpuwork.shared_folder import make_folder, only_one
from gpuwork.untrusted_files import make_way_for_folder
from gpuwork.worker.arguments import parse_arguments
from gpuwork.worker.asked import BEGUN_AT_INIT, PROCESS, THREAD
from gpuwork.worker.consumer import EagerConsumer
from gpuwork.worker.cuda_begun import has_begun_cuda
from gpuwork.worker.gate import Gate
from gpuwork.worker.keeper import Keeper
from gpuwork.worker.project import load_app, sign_code
from gpuwork.worker.restart import RestartOnChange
from gpuwork.worker.runs import LeashedRuns
from gpuwork.worker.scrubbing import Scrubbing
from gpuwork.worker.task_process import ProcessPool, TaskProcess
from gpuwork.worker.tasks import add_tasks

if TYPE_CHECKING:
    import argparse

    from celery import Celery
    from celery.worker import WorkController
    from celery.worker.consumer import Consumer

_WORKERS: Final = ".workers"
_LEFT_S: Final = 12.0  # so long a run may need to end that lost its worker
_LOOK_S: Final = 0.1
_POOLS: Final = {PROCESS: ProcessPool, THREAD: THREAD}
_LOG: Final = logging.getLogger("gpuwork.worker")


def main(arguments: list[str]) -> int:
    """Run the program on `arguments` (without its name) and return its exit code."""
    asked = parse_arguments(arguments)
    if asked.leashed:
        on_leash_end(lambda: os.kill(os.getpid(), signal.SIGTERM))
    name = f"{asked.gpu}@{platform.node()}"
    place = asked.folder.absolute() / _WORKERS / name.replace("/", "_")
    try:
        with ExitStack() as held:
            _take_gpu(place, held)
            _end_what_was_left(place)
            return _serve(asked, name, place)
    except WorkError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def _take_gpu(place: Path, held: ExitStack) -> None:
    """Be the one worker of this GPU: hold the lock `place`, which is in the folder of jobs."""
    folder, store = place.parent, place.parent.parent
    if not store.parent.is_dir():
        raise StoreError(
            "the shared folder does not exist", evidence=f"{store.parent} is not a folder", fix=f"ls -ld {store.parent}"
        )
    with writing(store, failed="the folder of jobs cannot be written"):
        store.mkdir(exist_ok=True)
        make_way_for_folder(folder)
        make_folder(folder)
        try:
            held.enter_context(only_one(folder, name=place.name, log=folder, lock=place.name))
        except Elsewhere as error:
            fix = "pgrep -af gpuwork.worker"
            raise Elsewhere("another worker has this GPU", evidence=error.evidence, fix=fix) from error


def _end_what_was_left(place: Path) -> None:
    """Wait for runs of a worker of this GPU that was killed; then kill what is left of them."""
    until = time.monotonic() + _LEFT_S
    while find_marked({WORKER_VARIABLE: str(place)}) and time.monotonic() < until:
        time.sleep(_LOOK_S)
    end_leftovers({WORKER_VARIABLE: str(place)})


def _serve(asked: argparse.Namespace, name: str, place: Path) -> int:
    warnings.simplefilter("ignore", CPendingDeprecationWarning)  # of what is as it is to be
    os.environ["CUDA_VISIBLE_DEVICES"] = asked.gpu
    scrubbing = Scrubbing(asked.gpu) if asked.scrub else None
    find_fault = scrubbing.find_fault if scrubbing else str
    project = asked.project.absolute() if asked.project and not scrubbing else None
    home, store, log = Path.cwd(), asked.folder.absolute(), asked.log.absolute()
    signed = sign_code(project) if project else None  # before it is imported
    served = load_app(project, asked.app if project else None, read_broker(asked.broker))
    app = served.app
    check_url(app)
    app.amqp.queues.add(own_queue(name))
    app.conf.worker_consumer = f"{EagerConsumer.__module__}:{EagerConsumer.__name__}"
    runs = LeashedRuns(store, mark=str(place), scrubbing=scrubbing)
    add_tasks(app, runs, gpu=asked.gpu, project=project, find_fault=find_fault)
    restart = RestartOnChange(project, signed)
    process = TaskProcess(runs.stop)
    over = threading.Event()
    notices = [*served.notices]
    if scrubbing and asked.project and asked.project.is_dir():
        notices.append("it is not served where gpus.scrub is set: its tasks are nobody's, and keep memory of the GPU")

    def on_init(sender: WorkController, **_: object) -> None:  # after the app, which was loaded before
        if served.pool == PROCESS and has_begun_cuda():
            sender.pool_cls = THREAD
            notices.append(BEGUN_AT_INIT)

    def on_end(**_: object) -> None:
        over.set()
        process.end()

    def on_ready(sender: Consumer, **_: object) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # Celery would begin anew, as another program than this
        if served.fault is not None:
            words = hide_password(served.fault)
            _LOG.error("the app of the project is not served until its code is changed: %s", words)
        for notice in notices:
            _LOG.warning("the app of the project: %s", hide_password(notice))
        gate = Gate(store, served.queues, is_last=lambda: restart.has_changed, find_fault=find_fault)
        for work, arguments in ((_keeper(app, store).until, ()), (restart.until, ()), (gate.until, (sender,))):
            threading.Thread(target=work, args=(over, *arguments), daemon=True).start()

    signals.worker_init.connect(on_init, weak=False)
    signals.worker_shutting_down.connect(on_end, weak=False)
    signals.worker_ready.connect(on_ready, weak=False)
    process.connect()
    with writing(store, failed="the worker's log cannot be written"):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.open("ab").close()
    worker = app.Worker(
        hostname=name, queues=[*served.queues, name], pool=_POOLS[served.pool], concurrency=1, prefetch_multiplier=1,
        loglevel="INFO", logfile=str(log), task_events=True, without_gossip=True, without_mingle=True,
    )  # fmt: skip
    worker.start()
    if restart.wanted:
        os.chdir(home)  # the project may be gone, and paths may begin here
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  (itself)
    return int(worker.exitcode or 0)


def _keeper(app: Celery, store: Path) -> Keeper:
    counted: dict[str, Any] = state.total_count
    return Keeper(app, store, begun=lambda: sum(counted.values()), is_busy=lambda: bool(tuple(state.active_requests)))
