"""Run as `python3 -m gpuwork.programs`."""

import os
import sys

# `python3 -m` puts the current folder first, and that may be a project with a `queue.py` of its own.
if sys.path[0] == os.getcwd() and not os.path.isdir("gpuwork"):  # noqa: PTH109, PTH112  (Path imports such modules)
    del sys.path[0]

from gpuwork.programs.cli import main

sys.exit(main(sys.argv[1:]))
