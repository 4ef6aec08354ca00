"""A user's project that a worker serves: its Celery app with our settings, and whether its code has changed."""

from __future__ import annotations

import logging
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.grids import RUNS
from gpuwork import celeryconfig
from gpuwork.broker import QUEUE, broker_settings, make_app
from gpuwork.broker_file import transport_options
from gpuwork.project_files import LEFT_OUT
from gpuwork.worker.asked import choose_pool, find_denied, find_queues, find_void
from gpuwork.worker.cuda_begun import has_begun_cuda

if TYPE_CHECKING:
    from celery import Celery

_MOST_FILES: Final = 20_000
_OF_ENVIRONMENT: Final = ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL")
# What a worker with one GPU is; a project's settings for everything else stay as they are.
_FIXED: Final = ("worker_concurrency", "worker_prefetch_multiplier")
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Served:
    """What a worker serves.

    Attributes:
        pool: Celery's name of where its tasks run.
        fault: What is wrong with the project's app if that cannot be served.
        notices: What it asks for and does not get.
    """

    app: Celery
    queues: tuple[str, ...] = (QUEUE,)
    pool: str
    fault: str | None = None
    notices: tuple[str, ...] = ()


def load_app(project: Path | None, module: str | None, url: str) -> Served:
    """The app to serve; a project whose code is broken does not keep its worker from making runs of jobs."""
    for name in _OF_ENVIRONMENT:  # Celery would take them for what was asked
        os.environ.pop(name, None)
    if project is not None and project.is_dir():
        sys.dont_write_bytecode = True  # an edit in the same second is an edit too, and the folder is the user's
        os.chdir(project)
        # This program is isolated, but the project's code may need what the node's variables name.
        named = os.environ.get("PYTHONPATH", "").split(os.pathsep) if sys.flags.isolated else ()
        sys.path[:0] = [str(project), *filter(None, named)]
    fault = None
    if project is not None and module is not None and _has_module(project, module):
        try:
            return _load_theirs(module, url)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (a user's code may raise anything)
            _LOG.warning("the app of the project cannot be served", exc_info=error)
            fault = f"{type(error).__name__}: {error}"
    return Served(app=make_app(url), pool=choose_pool({}, has_begun_cuda=has_begun_cuda()), fault=fault)


def _load_theirs(module: str, url: str) -> Served:
    app = _import_app(module)
    given = dict(app.conf.table(censored=False))
    denied = [*find_denied(given, url=url)]
    settle(app, url)
    app.loader.import_default_modules()
    app.finalize()
    has_begun = has_begun_cuda()
    pool = choose_pool(given, has_begun_cuda=has_begun)
    queues, unknown = find_queues(app)
    notices = (*denied, *find_void(app, given, pool=pool, has_begun_cuda=has_begun), *unknown)
    return Served(app=app, queues=tuple(dict.fromkeys([*queues, QUEUE])), pool=pool, notices=notices)


def settle(app: Celery, url: str) -> None:
    """Add our settings to an app: those that it has itself stay, but for the broker and what a worker is."""
    given = app.conf.table(censored=False)
    ours = {name: value for name, value in vars(celeryconfig).items() if name.islower() and not name.startswith("_")}
    wanted: dict[str, Any] = {
        name: value for name, value in ours.items() if name in app.conf and (name in _FIXED or name not in given)
    }
    wanted["worker_enable_remote_control"] = True  # by it workers say that they are there
    options = {**transport_options(url), **given.get("broker_transport_options", {})}
    app.conf.update({**wanted, **broker_settings(url), "broker_transport_options": options})


def sign_code(project: Path) -> frozenset[tuple[str, int, int]]:
    """The Python files of a project with their times and sizes: differs when the code has changed."""
    found: set[tuple[str, int, int]] = set()
    for here, folders, files in os.walk(project):
        folders[:] = [name for name in folders if name not in LEFT_OUT and (name != RUNS or here != str(project))]
        for name in files:
            if name.endswith(".py") and len(found) < _MOST_FILES:
                path = Path(here, name)
                try:
                    status = path.stat()
                except OSError:
                    continue
                found.add((str(path), status.st_mtime_ns, status.st_size))
    return frozenset(found)


def _has_module(project: Path, module: str) -> bool:
    top = project / re.split(r"[.:]", module)[0]
    if top.is_dir() or top.with_suffix(".py").is_file():
        return True
    if project.is_dir():
        _LOG.warning("%s has no module %s yet: only its functions and jobs are served", project, top.name)
    return False


def _import_app(module: str) -> Celery:
    from celery.app.utils import find_app

    app: Celery = find_app(module)
    return app
