"""Settings of Celery for tasks that take long and have a GPU; a project's `celeryconfig.py` can import them all.

Where a node has the broker's file, `broker_url` comes from there, so that no project holds a password.
"""

from typing import Final

from gpuwork.broker_file import BROKER, read_broker, transport_options

# A task belongs to the broker until it has ended: if its worker dies, another one gets it.
task_acks_late: Final = True
task_reject_on_worker_lost: Final = True
# A worker takes what it begins at once, and leaves everything else to the others.
worker_prefetch_multiplier: Final = 1
worker_concurrency: Final = 1
# A process beside the one that talks to the broker; it is forked before anything uses CUDA, and keeps what it loads.
# With `solo`, a worker that is busy sends no heartbeats, so that RabbitMQ drops it in mid-task.
worker_pool: Final = "prefork"
worker_proc_alive_timeout: Final = 600.0  # for what `worker_process_init` loads onto the GPU; Celery allows 4 s
accept_content: Final = ["json"]
task_serializer: Final = "json"
result_serializer: Final = "json"
event_serializer: Final = "json"
result_backend: Final = "rpc://"
worker_send_task_events: Final = True  # for Flower
# The broker notices within twice this time that a machine is gone; a process that dies, at once.
broker_heartbeat: Final = 10
broker_connection_retry_on_startup: Final = True
broker_connection_max_retries: Final = None
worker_cancel_long_running_tasks_on_connection_loss: Final = False

if BROKER.exists():
    broker_url: Final = read_broker(BROKER)
    broker_transport_options: Final = transport_options(broker_url)
