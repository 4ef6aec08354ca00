"""`gpuprov person` and the verbs below it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.tables import render_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.cli.session import Session
    from gpuprov.fleet.done import Done
    from gpuprov.stories.people import NewPerson

NONE: Final = "none"  # takes an account or a limit away
_FORM = "1 to 31 of a-z, 0-9, _ and -; starts with a letter"


def _checked(_context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """The name of a person or an account, refused where it cannot be one."""
    from gpuprov.core.errors import UsageError
    from gpuprov.core.excerpt import excerpt

    if name is not None and not re.fullmatch(r"[a-z][a-z0-9_-]{0,30}", name):
        what = "an account" if parameter.name == "account" else "a person"
        raise UsageError(
            f"{excerpt(name)!r} is no name of {what}", evidence=f"allowed: {_FORM}", fix="choose a name such as ann"
        )
    return name


class _Limit(click.IntRange):
    """A number of GPUs; with `NONE`, no limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """As typed."""
        from gpuprov.core.errors import UsageError
        from gpuprov.core.excerpt import excerpt

        if value == NONE:
            return value
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            raise UsageError(
                f"--gpus {excerpt(str(value))!r} is no limit of GPUs",
                evidence="allowed: a whole number from 0, of GPUs of any type, or none",
                fix="--gpus 1, or --gpus none for no limit",
            ) from error


_person_argument: Callable[[Any], Any] = click.argument("name", metavar="NAME", callback=_checked)


@command(cluster_option, engine_option)
def list_people(session: Session) -> Result:
    """List the people of a cluster: who has an account in its nodes, and whom of a directory the spec names."""
    from gpuprov.core.names import name_cluster
    from gpuprov.shapes.people import People
    from gpuprov.stories.people import list_people as list_all

    people = list_all(session.fleet, session.cluster)
    rows = [
        (one.name, one.uid, one.account, "" if one.gpus is None else one.gpus, len(one.keys), one.home)
        for one in people
    ]
    text = render_table(("NAME", "UID", "ACCOUNT", "GPUS", "KEYS", "HOME"), rows, screen=session.screen)
    nobody = name_cluster("nobody; add somebody: gpuprov person add ann --key FILE", session.cluster)
    document = People(host=session.host.name, cluster=session.cluster, people=people)
    return Result(document=document, text=text if people else nobody)


_details: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--key",
        "key_files",
        type=click.Path(path_type=Path),
        multiple=True,
        metavar="FILE",
        help="File with public keys of ssh; repeatable.",
    ),
    click.option(
        "--account", metavar="NAME", callback=_checked, help="Group of people that they belong to; `none` for none."
    ),
    click.option(
        "--gpus",
        type=_Limit(0),
        metavar="N",
        help="Number of GPUs that they may have at once; `none` for no limit.",
    ),
)


@command(
    _person_argument,
    click.option("--uid", type=int, metavar="N", help="Number of the account.  [default: a free one, from 10001]"),
    *_details,
    cluster_option,
    engine_option,
)
def add(session: Session, name: str, key_files: tuple[Path, ...], **given: Any) -> Done:  # noqa: ANN401 - click's own
    """Give somebody an account in all nodes of a cluster: the same number everywhere, and no password.

    The spec of the cluster gets the person, and the cluster is brought to it, as by `cluster up` without options. If
    the cluster has `sssd`, a NAME without --uid and --key is somebody of the directory, who has an account already.
    """
    from gpuprov.stories.people import add_person

    return add_person(session.fleet, session.cluster, _new_person(name, key_files, given))


@command(_person_argument, *_details, cluster_option, engine_option)
def change(session: Session, name: str, key_files: tuple[Path, ...], **given: Any) -> Done:  # noqa: ANN401 - click's own
    """Give somebody other keys, another account or another limit. What is not given stays; keys replace all keys.

    The number stays for ever: files have it.
    """
    from gpuprov.core.errors import UsageError
    from gpuprov.stories.people import change_person

    if not key_files and given == {"account": None, "gpus": None}:
        raise UsageError(
            "there is nothing to change",
            evidence="neither --key nor --account nor --gpus is given",
            fix=f"gpuprov person set {name} --key FILE",
        )
    return change_person(session.fleet, session.cluster, _new_person(name, key_files, given))


def _new_person(name: str, key_files: tuple[Path, ...], given: Mapping[str, Any]) -> NewPerson:
    """What is typed of somebody, checked."""
    from gpuprov.stories.people import NewPerson, check_new_person, read_keys

    keys = tuple(dict.fromkeys(key for path in key_files for key in read_keys(path)))
    without = frozenset(key for key, value in given.items() if value == NONE)
    said = {key: None if key in without else value for key, value in given.items()}
    new = NewPerson(name=name, keys=keys, without=without, **said)
    check_new_person(new)
    return new


@command(
    _person_argument,
    click.option("--force", is_flag=True, help="Cancel their jobs, and name them."),
    cluster_option,
    engine_option,
)
def remove(session: Session, name: str, *, force: bool) -> Done:
    """Take somebody's account out of all nodes, and end their processes there. Refused while jobs of theirs are there.

    Their home and their files stay; nobody but root enters that home.
    """
    from gpuprov.stories.people import remove_person

    return remove_person(session.fleet, session.cluster, name, reach=lambda: session.controller, force=force)
