"""The options that every verb takes, before or after its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gpuprov.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

HELP: Final = {"help_option_names": ["-h", "--help"]}  # which commands below a group take over
FC = TypeVar("FC", bound="Callable[..., Any] | click.Command")


def common_options() -> list[click.Parameter]:
    """`-q`, `-v` and `--json`; each sets the session and none is handed to the verb."""
    return [
        _flag("quiet", ["-q", "--quiet"], "Show only warnings and errors."),
        _flag("verbose", ["-v", "--verbose"], "Show every step of every node."),
        _flag("as_json", ["--json", "as_json"], "Print the result as one JSON document."),
    ]


def _flag(name: str, declaration: list[str], text: str) -> click.Option:
    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
        if value:
            setattr(ctx.ensure_object(Session), name, True)

    return click.Option(declaration, is_flag=True, expose_value=False, is_eager=True, callback=remember, help=text)


def page_port_option(default: int) -> Callable[[FC], FC]:
    """`--port` of the verbs that lead a browser to a page in a node."""
    port = click.IntRange(1, 65535)
    return click.option(
        "--port", type=port, default=default, show_default=True, help="Port of this host, on 127.0.0.1."
    )
