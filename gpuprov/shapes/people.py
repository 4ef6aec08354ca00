"""The people of a cluster, as `person list` shows them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.cluster_spec import PersonName
from gpuprov.shapes.words import Word, Words


class Person(Shape, frozen=True, kw_only=True):
    """Somebody who has an account in the nodes, or whom these know by a directory.

    Attributes:
        name: Of the account.
        uid: Its number, and that of its group; null for somebody of the directory.
        account: The group of people that they belong to; null for none.
        gpus: How many they may have at once; null for any.
        keys: Fingerprints of the keys that let them in, as ssh-keygen shows them.
        home: In the nodes that take jobs; null where the directory says it.
    """

    name: PersonName
    uid: Annotated[int, Meta(ge=0)] | None
    account: PersonName | None
    gpus: Annotated[int, Meta(ge=0)] | None
    keys: tuple[Words, ...]
    home: Word | None


class People(Document, frozen=True, kw_only=True, tag="gpuprov.people/v1"):
    """The document of `gpuprov person list --json`.

    Attributes:
        host: Name of the host.
        cluster: Whose they are.
    """

    host: str
    cluster: str
    people: tuple[Person, ...]
