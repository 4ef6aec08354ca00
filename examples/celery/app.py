"""A Celery app with one task, which needs a GPU."""

from __future__ import annotations

import os
import platform

from celery import Celery
from numba import cuda

app = Celery("app")
app.config_from_object("celeryconfig")


@app.task
def deep_learning_task(num_hidden_units: int) -> dict[str, object]:
    """Stand for a training: print the arguments and the GPU, and return them."""
    has_cuda = cuda.is_available()
    gpu = getattr(cuda.get_current_device(), "name", "SIMULATED") if has_cuda else None  # numba's simulator has no name
    print(f"num_hidden_units={num_hidden_units} CUDA={has_cuda} GPU={gpu}")
    return {
        "num_hidden_units": num_hidden_units,
        "cuda": has_cuda,
        "gpu": gpu,
        "uuid": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "node": platform.node(),
    }
