"""Run as `python3 -m gpuwork.grid`."""

import sys

from gpuwork.grid.cli import main

sys.exit(main(sys.argv[1:]))
