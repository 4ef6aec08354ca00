"""The one decorator of verbs: it takes what every verb takes, has the verb act, and shows what came of it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Union

import click

from gpuprov.cli.session import Session, Shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.outcome import Outcome
    from gpuprov.fleet.done import Done

HELP: Final = {"help_option_names": ["-h", "--help"]}  # which commands below a group take over


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a verb found or did, for programs and for people.

    Attributes:
        document: Printed with `--json`. The host and the cluster are filled in where it leaves both out.
        text: Printed otherwise.
        error: Of hosts that did not answer or do their part; shown below the result, and the verb ends with it.
        code: The exit code if there is no error.
    """

    document: Shown
    text: str
    error: GpuprovError | None = None
    code: int = 0


# What a verb may return: None or its exit code where it has printed all there is
Answer = Union[None, int, Result, "Outcome", "Done"]


def command(
    *parameters: Callable[[Any], Any],
    kind: type[click.Command] = click.Command,
    **settings: Any,  # noqa: ANN401 - click's own
) -> Callable[[Callable[..., Answer]], click.Command]:
    """Make a function a verb; its docstring is the help of the verb.

    The function gets the session first, then what was typed, by name. `--engine` and the cluster are in the session:
    `session.engine`, `session.cluster`; and so is the way there: `session.fleet`, `session.controller`.

    Args:
        parameters: Options and arguments, in the order of `--help`.
        kind: How the command line is parsed.
        settings: Of click.
    """

    def make(act: Callable[..., Answer]) -> click.Command:
        @functools.wraps(act)
        def run(session: Session, /, **typed: Any) -> int:  # noqa: ANN401 - what click hands over, by name
            session.engine = typed.pop("engine", None)
            session.cluster = typed.pop("cluster", None) or ""
            return _show(session, act(session, **typed))

        function: Callable[..., Any] = click.pass_obj(run)
        for parameter in reversed(parameters):
            function = parameter(function)
        settings["context_settings"] = {**HELP, **settings.get("context_settings", {})}
        return click.command(cls=kind, **settings)(function)

    return make


def common_options() -> list[click.Parameter]:
    """`-q`, `-v` and `--json`; each sets the session and none is handed to the verb."""
    return [
        _flag("quiet", ["-q", "--quiet"], "Show only the result, warnings and errors."),
        _flag("verbose", ["-v", "--verbose"], "Show every step of every node."),
        _flag("as_json", ["--json", "as_json"], "Print the result as one JSON document."),
    ]


def _flag(name: str, declaration: list[str], text: str) -> click.Option:
    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
        if value:
            setattr(ctx.ensure_object(Session), name, True)

    return click.Option(declaration, is_flag=True, expose_value=False, is_eager=True, callback=remember, help=text)


def _show(session: Session, answer: Answer) -> int:
    if answer is None or isinstance(answer, int):
        return answer or 0
    result = answer if isinstance(answer, Result) else _of_changes(session, answer)
    document = _filled_in(session, result.document)
    if result.error is not None:
        from gpuprov.cli.failure import fail

        return fail(session, result.error, result=document, text=result.text)
    session.show(document, result.text)
    return result.code


def _of_changes(session: Session, done: Outcome | Done) -> Result:
    """One line for each change, or `unchanged`."""
    from gpuprov.core.outcome import Outcome
    from gpuprov.shapes.outcome import Changes

    outcome, error = (done, None) if isinstance(done, Outcome) else (done.outcome, done.error)
    text = "\n".join(outcome.changed) or ("" if error else "unchanged")
    return Result(document=Changes(host=session.host.name, changed=outcome.changed), text=text, error=error)


def _filled_in(session: Session, document: Shown) -> Shown:
    from msgspec import UNSET

    if isinstance(document, Mapping) or any(getattr(document, name, "") is not UNSET for name in ("host", "cluster")):
        return document
    from gpuprov.shapes.base import changed

    return changed(document, host=session.host.name, cluster=session.cluster)
