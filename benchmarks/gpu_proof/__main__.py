"""Everything about gpuprov that only a machine with a GPU can show: `python -m benchmarks.gpu_proof OUT`.

Needs Python 3.10 with the packages of the smoke kernels, and no network; docs/gpu-proof.md names them. Every part is a
process with a limit, and all of them fit into the budget. Writes OUT/gpu-proof.json and OUT/gpu-proof.md. Exits with 1
if a part failed, and with 3 if there is no GPU driver (without --simulate).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from benchmarks.gpu_proof.page import proof_document, render_page
from benchmarks.gpu_proof.parts import WATCH_S, plan_parts, this_place
from benchmarks.gpu_proof.run import run_parts

BUDGET_S = 470.0
NO_DRIVER = 3
DRIVER = Path("/proc/driver/nvidia/version")


def main(arguments: list[str] | None = None) -> int:
    """Run every part, write both files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_proof", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for both files; made if missing")
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="SECONDS", help="what it may take")
    parser.add_argument("--watch", type=float, default=WATCH_S, metavar="SECONDS", help="how long to watch")
    parser.add_argument("--only", action="append", metavar="PART", help="this part only; may be repeated")
    parser.add_argument("--simulate", action="store_true", help="without a GPU: shows that the proof itself works")
    wanted = parser.parse_args(arguments)
    if not wanted.simulate and not DRIVER.exists():
        sys.stderr.write(
            f"error: no NVIDIA driver is loaded\n  evidence: {DRIVER} is absent\n"
            "  next:     make gpu-proof on a machine with a GPU; to try the proof itself, add --simulate\n"
        )
        return NO_DRIVER
    wanted.out.mkdir(parents=True, exist_ok=True)
    if "CUDA_HOME" not in os.environ and (home := find_toolkit()):
        os.environ["CUDA_HOME"] = home
    parts = plan_parts(this_place(simulated=wanted.simulate), watch_s=wanted.watch)
    names = [part.name for part in parts]
    unknown = sorted(set(wanted.only or ()) - set(names))
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(names)}")
    started = time.monotonic()
    chosen = [part for part in parts if not wanted.only or part.name in wanted.only]
    results = list(run_parts(chosen, budget_s=wanted.budget, tell=lambda line: sys.stderr.write(f"{line}\n")))
    proof = proof_document(results, simulated=wanted.simulate, seconds=time.monotonic() - started)
    (wanted.out / "gpu-proof.json").write_text(json.dumps(proof, indent=1) + "\n", encoding="utf-8")
    (wanted.out / "gpu-proof.md").write_text(render_page(proof), encoding="utf-8")
    sys.stdout.write(f"{wanted.out / 'gpu-proof.md'}\n")
    return 0 if proof["passed"] else 1


def find_toolkit(root: Path = Path("/")) -> str:
    """Return the folder of a CUDA toolkit that has NVVM, for CUDA_HOME, in which numba looks; empty where none is."""
    found = (path.parents[2] for path in sorted(root.glob("usr/local/cuda*/nvvm/lib64/libnvvm.so*")))
    return str(next(found, ""))


if __name__ == "__main__":
    sys.exit(main())
