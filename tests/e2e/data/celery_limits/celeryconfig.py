"""The cluster's broker, and a queue that the app's own tasks are routed to."""

from gpuwork.celeryconfig import *

task_routes = {"app.*": {"queue": "gpu"}}
worker_concurrency = 4  # type: ignore[misc]  # (it has no effect, which is told)
