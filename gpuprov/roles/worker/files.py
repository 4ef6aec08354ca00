"""What workers and their broker read: pure functions."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.core.fingerprint import fingerprint
from gpuprov.drivers.base import File
from gpuprov.render.templates import render
from gpuprov.roles.worker.facts import (
    ACCOUNT,
    APPLIED,
    BROKER,
    DEFINITIONS,
    FLOWER,
    GPUS,
    PAGE_DIGITS,
    PAGE_PORT,
    PAGE_USER,
    PORT,
    RABBITMQ,
)
from gpuprov.spec.shared_folder import ACCOUNT_UID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.whole import Member


_SALT: Final = 4


def broker_url(password: bytes, address: str) -> str:
    """Where the workers of a cluster find its broker."""
    return f"amqp://{ACCOUNT}:{password.decode()}@{address}:{PORT}/{ACCOUNT}"


def hash_password(password: bytes) -> str:
    """As RabbitMQ keeps it: a salt of four bytes and the SHA-256 of salt and password, in base64.

    The salt is made from the password, so that the same password is the same text; 256 random bits need no other.
    """
    salt = hashlib.sha256(b"salt" + password).digest()[:_SALT]
    return base64.b64encode(salt + hashlib.sha256(salt + password).digest()).decode()


def page_password(password: bytes) -> str:
    """It follows from the broker's, which does not follow from it: a cluster has one secret."""
    return hmac.new(password, b"flower", hashlib.sha256).hexdigest()[:PAGE_DIGITS]


def page_file(password: bytes) -> File:
    """What Flower reads, and only root and the account of jobs may."""
    told = {"port": PAGE_PORT, "user": PAGE_USER, "password": page_password(password)}
    content = render(get_asset("templates"), "worker/flower.py.j2", **told)
    return File(path=FLOWER, content=content.encode(), mode=0o640, gid=ACCOUNT_UID)


def worker_files(url: str, member: Member, *, scrub: bool = False) -> tuple[File, ...]:
    """The broker's URL, which only root and the account of jobs may read, and the node's GPUs.

    A worker of an image that cannot scrub refuses a line that says so.
    """
    gpus = "".join(f"{uuid}{' scrub' if scrub else ''}\n" for uuid in member.gpus)
    return (
        File(path=BROKER, content=f"{url}\n".encode(), mode=0o640, gid=ACCOUNT_UID),
        File(path=GPUS, content=gpus.encode()),
    )


def broker_files(password: bytes, address: str) -> tuple[File, ...]:
    """What makes a node the broker, which listens on this address alone, and has it show the page of the queue."""
    templates = get_asset("templates")
    place = {"address": address, "port": PORT, "definitions": f"{RABBITMQ}/definitions.json"}
    conf = render(templates, "worker/rabbitmq.conf.j2", **place)
    definitions = render(templates, "worker/definitions.json.j2", password_hash=hash_password(password))
    return (
        File(path=f"{RABBITMQ}/rabbitmq.conf", content=conf.encode()),
        File(path=f"{RABBITMQ}/advanced.config", content=render(templates, "worker/advanced.config").encode()),
        File(path=DEFINITIONS, content=definitions.encode(), mode=0o600),
        page_file(password),
    )


def applied_file(files: Sequence[File]) -> File:
    """The digest of what a node's services read, without the secrets themselves."""
    digest = fingerprint({file.path: hashlib.sha256(file.content).hexdigest() for file in files})
    return File(path=APPLIED, content=f"{digest}\n".encode())
