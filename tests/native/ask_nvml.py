"""Prints what the probe is told by libnvidia-ml.so.1, and what its sampler notes meanwhile."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from gpuprov.verify.probe import Sampler, ask_nvml


def main() -> None:
    begun = time.monotonic()
    facts: dict[str, Any] = {"nvml": ask_nvml(None), "seconds": time.monotonic() - begun}
    sampler = Sampler(interval_s=0.01)
    if "gpus" in facts["nvml"]:
        sampler.start()
        time.sleep(0.05)
    facts["samples"] = sampler.finish()
    sys.stdout.write(json.dumps(facts))


if __name__ == "__main__":
    main()
