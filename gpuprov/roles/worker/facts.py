"""Where things of workers and their broker are in nodes; the roles `broker` and `worker` have the same paths."""

from __future__ import annotations

from typing import Final

NAME: Final = "worker"
FOLDER: Final = "/etc/gpuwork"
BROKER: Final = f"{FOLDER}/broker"  # the URL
GPUS: Final = f"{FOLDER}/gpus"  # a UUID a line, and ` scrub` where its memory is scrubbed between people
APPLIED: Final = f"{FOLDER}/applied"  # the digest of what the services have read
DEFINITIONS: Final = f"{FOLDER}/definitions.json"  # the broker starts only where this is
FLOWER: Final = f"{FOLDER}/flower.py"  # the page of the queue starts only where this is
ARRIVAL: Final = f"{FOLDER}/arrive"  # in a node that replaces a broker's; the broker runs it before it starts
QUEUE: Final = "/var/lib/rabbitmq/mnesia"
RABBITMQ: Final = "/etc/rabbitmq"
ACCOUNT: Final = "gpuwork"  # at the broker, and its virtual host
PORT: Final = 5672
PAGE_PORT: Final = 5555  # of 127.0.0.1 in the broker's node
WORKERS: Final = "gpuwork"  # the service of a node's workers
SCRUB_SERVICE: Final = "gpuwork-scrub"  # starts only where a line of GPUS says so
BROKER_SERVICE: Final = "rabbitmq-server"
PAGE_SERVICE: Final = "gpuwork-flower"
PAGE_USER: Final = "gpuprov"
PAGE_DIGITS: Final = 32  # hexadecimal ones of its password
