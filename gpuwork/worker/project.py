"""A user's project that a worker serves: its Celery app with our settings, and whether its code has changed."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuwork import celeryconfig
from gpuwork.broker import QUEUE, broker_settings, make_app
from gpuwork.broker_file import transport_options
from gpuwork.project_files import LEFT_OUT, RUNS

if TYPE_CHECKING:
    from celery import Celery

_MOST_FILES: Final = 20_000
_OF_ENVIRONMENT: Final = ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL")
# What a worker with one GPU is; a project's settings for everything else stay as they are.
_FIXED: Final = ("worker_pool", "worker_concurrency", "worker_prefetch_multiplier")
_LOG: Final = logging.getLogger(__name__)


def load_app(project: Path | None, module: str | None, url: str) -> tuple[Celery, list[str], str | None]:
    """The app to serve, its queues, and what is wrong with the project's app if that cannot be served.

    A project whose code is broken does not keep its worker from making runs of jobs.
    """
    for name in _OF_ENVIRONMENT:  # Celery would take them for what was asked
        os.environ.pop(name, None)
    if project is not None and project.is_dir():
        sys.dont_write_bytecode = True  # an edit in the same second is an edit too, and the folder is the user's
        os.chdir(project)
        sys.path.insert(0, str(project))
    if project is None or module is None or not _has_module(project, module):
        return make_app(url), [QUEUE], None
    try:
        app = _import_app(module)
        settle(app, url)
        app.loader.import_default_modules()
        app.finalize()
    except (Exception, SystemExit) as error:  # noqa: BLE001  (a user's code may raise anything)
        _LOG.warning("the app of the project cannot be served", exc_info=error)
        return make_app(url), [QUEUE], f"{type(error).__name__}: {error}"
    return app, list(dict.fromkeys([*app.amqp.queues, QUEUE])), None


def settle(app: Celery, url: str) -> None:
    """Add our settings to an app: those that it has itself stay, but for the broker and what a worker is."""
    given = app.conf.table(censored=False)
    ours = {name: value for name, value in vars(celeryconfig).items() if name.islower() and not name.startswith("_")}
    wanted: dict[str, Any] = {
        name: value for name, value in ours.items() if name in app.conf and (name in _FIXED or name not in given)
    }
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
