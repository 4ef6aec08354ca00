"""Run as `python3 -m smoke_kernels`."""

import sys

from smoke_kernels.cli import main

sys.exit(main(sys.argv[1:]))
