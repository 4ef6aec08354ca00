"""RabbitMQ's files: what benchmarks write is what nodes have, and it says what it is meant to say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.rabbitmq import RabbitMq, hash_password

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def broker(tmp_path: Path) -> RabbitMq:
    """One that is never started."""
    (tmp_path / "etc").mkdir()
    return RabbitMq(tmp_path / "usr/lib/rabbitmq/bin/rabbitmq-server", tmp_path / "etc")


def test_a_password_is_hashed_as_rabbitmq_does_it() -> None:
    salt = bytes.fromhex("908DC60A")  # the example of RabbitMQ's documentation
    assert hash_password("test12", salt) == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert hash_password("a") != hash_password("a"), "the salt differs"


def test_the_files_name_one_account_one_address_and_no_limit(broker: RabbitMq, tmp_path: Path) -> None:
    files = {path.name: path.read_text() for path in (tmp_path / "etc").iterdir() if path.is_file()}
    told = json.loads(files["definitions.json"])
    assert [(user["name"], user["tags"]) for user in told["users"]] == [("gpuwork", [])]
    assert [vhost["name"] for vhost in told["vhosts"]] == ["gpuwork"]
    assert all(broker.password not in text for text in files.values())
    assert files["rabbitmq.conf"].count("listeners.tcp.1 = 127.0.0.1:") == 1
    assert "{consumer_timeout, undefined}" in files["advanced.config"]
    assert "inet_dist_use_interface {127,0,0,1}" in files["rabbitmq-env.conf"]
    broker.configure(consumer_timeout=60_000)
    assert "{consumer_timeout, 60000}" in (tmp_path / "etc/advanced.config").read_text()
