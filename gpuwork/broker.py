"""The broker of a cluster's workers: where its URL is, and how runs are handed to it.

The URL has a password in it. It is in a file alone: not in an argument, not in the environment, in no message.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuwork.errors import BrokerError
from gpuwork.shared_folder import read_limited

if TYPE_CHECKING:
    from collections.abc import Iterable

    from celery import Celery

BROKER: Final = Path("/etc/gpuwork/broker")
QUEUE: Final = "gpuwork"
RUN_TASK: Final = "gpuwork.run"
_MOST_BYTES: Final = 4096
_URL: Final = re.compile(r"[a-z][a-z0-9.+-]{0,60}://[!-~]{0,2000}")
_PASSWORD: Final = re.compile(r"://[^@/\s]*@")
_REASON: Final = 300
_PUBLISH: Final = {"max_retries": 3, "interval_start": 0.2, "interval_step": 0.5}


def read_broker(file: Path) -> str:
    """The URL in a file, which has one line.

    Raises:
        BrokerError: There is none; the message does not show what is there instead.
    """
    content = read_limited(file, limit=_MOST_BYTES)
    url = (content or b"").decode(errors="replace").strip()
    if not _URL.fullmatch(url):
        raise BrokerError(
            "the broker of the workers is not known",
            evidence=f"{file} " + ("cannot be read" if content is None else "is not one line with a URL"),
            fix=f"ls -l {file}",
        )
    return url


def make_app(url: str) -> Celery:
    """A Celery app with our settings and this broker."""
    from celery import Celery

    from gpuwork import celeryconfig

    app = Celery("gpuwork", set_as_current=False)
    app.config_from_object(celeryconfig)
    app.conf.update(broker_settings(url))
    return app


def broker_settings(url: str) -> dict[str, Any]:
    """Where to connect to; whatever else an app may have been told."""
    options = {"confirm_publish": True} if "amqp" in url.partition("://")[0] else {}
    return {
        "broker_url": url,
        "broker_read_url": url,
        "broker_write_url": url,
        "broker_transport_options": options,
    }


def send_runs(app: Celery, submission: str, numbers: Iterable[int]) -> None:
    """Hand runs to the workers; each is a message that says which, and nothing else.

    Raises:
        BrokerError: The broker does not answer, or refused; it has some of the messages.
    """
    try:
        with app.producer_or_acquire() as producer:
            for number in numbers:
                app.send_task(
                    RUN_TASK, (submission, number), queue=QUEUE, producer=producer, retry=True, retry_policy=_PUBLISH,
                    ignore_result=True,
                )  # fmt: skip
    except Exception as error:
        raise no_answer(error) from None  # the original may show the URL


def check_url(app: Celery) -> None:
    """Raise a BrokerError for a URL of a kind that is not known, or whose library is not installed."""
    try:
        app.connection_for_read().transport  # noqa: B018  (imports it)
    except Exception as error:
        raise no_answer(error) from None


def count_waiting(app: Celery) -> int:
    """How many messages no worker has taken yet.

    Raises:
        BrokerError: The broker does not answer.
    """
    try:
        with app.connection_for_read(connect_timeout=4) as connection:
            channel = connection.default_channel
            return int(app.amqp.queues[QUEUE](channel).queue_declare().message_count)
    except Exception as error:
        raise no_answer(error) from None


def no_answer(error: Exception) -> BrokerError:
    """What a library said of the broker, without a password."""
    words = hide_password(f"{type(error).__name__}: {error}")
    return BrokerError(
        "the broker of the workers does not answer", evidence=words[:_REASON], fix="systemctl status rabbitmq-server"
    )


def hide_password(text: str) -> str:
    """A text whose URLs have lost their account and password."""
    return _PASSWORD.sub("://...@", text)
