"""`python3 -m gpuwork.worker`, or another module with a `main`, where the broker is a folder."""

from __future__ import annotations

import importlib
import sys

from tests.fakes.brokerfolder import register

register()
sys.exit(importlib.import_module(sys.argv[1]).main(sys.argv[2:]))
