"""Run as `python3 -m gpuwork.worker`."""

import os
import sys

# `python3 -m` puts the current folder first, and that may be a project with a `queue.py` of its own.
if sys.path[0] == os.getcwd() and not os.path.isdir("gpuwork"):  # noqa: PTH109, PTH112  (Path imports such modules)
    del sys.path[0]

from gpuwork.broker import no_celery

try:
    from gpuwork.worker.cli import main
except ImportError as fault:
    sys.exit(str(no_celery(fault)))

sys.exit(main(sys.argv[1:]))
