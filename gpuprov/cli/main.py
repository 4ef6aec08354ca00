"""The program: find the verb, run it, turn what it raises into words and an exit code.

The tree of verbs is made from the table in verbs.py; a verb's module is imported when it is invoked.
"""

from __future__ import annotations

import gc
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import click
from click.core import ParameterSource

from gpuprov import __version__
from gpuprov.cli.command import HELP, common_options
from gpuprov.cli.failure import fail, fail_unexpectedly
from gpuprov.cli.session import Session, tell
from gpuprov.cli.settings import name_what_is_implied
from gpuprov.cli.stdout import flush_result, leave_streams, prepare_streams
from gpuprov.cli.verbs import GROUPS, HIDDEN, VERBS
from gpuprov.core.errors import GpuprovError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from click.shell_completion import CompletionItem

    from gpuprov.machine.base import Host

EXIT_INTERRUPTED = 130
_GARBAGE_AFTER = 100_000  # objects; with Python's 700, a short verb looks for garbage for a thirtieth of its time
_MOMENT_S = 0.01
_ABOUT: Final = """Turn a GPU machine into a cluster of GPU nodes, and verify that each node works.

GPUPROV_ENGINE and GPUPROV_CLUSTER, or else `engine` and `cluster` in ~/.config/gpuprov/settings.yaml, stand for
--engine and --cluster where these are not typed.
"""


def main(arguments: Sequence[str] | None = None, *, host: Host | None = None) -> int:
    """Run gpuprov with `arguments` (the process's own where None) on a host (this one) and return the exit code."""
    if arguments is not None:
        return _run(list(arguments), host)
    prepare_streams()
    gc.set_threshold(_GARBAGE_AFTER)
    # The process is ours: being ended from outside undoes what was begun, as Ctrl-C does.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) is signal.SIG_DFL:  # nohup ignores the second
            signal.signal(ending, signal.default_int_handler)
    sys.unraisablehook = _interrupt_again
    code = _run(sys.argv[1:], host)
    leave_streams()
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):  # all is done and said
        signal.signal(ending, signal.SIG_IGN)
    return code


def _run(given: Sequence[str], host: Host | None) -> int:
    session = Session(host)
    # Known before parsing, so that a program that asked for JSON gets JSON about its bad arguments too.
    session.as_json = "--json" in (given[: given.index("--")] if "--" in given else given)
    name_what_is_implied()
    try:
        code = root().main(given, prog_name="gpuprov", obj=session, standalone_mode=False)
        flush_result()
        session.end(int(code or 0))
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return UsageError.exit_code
    except click.ClickException as error:
        return fail(session, _usage_error(error))
    except (click.Abort, KeyboardInterrupt):
        tell("interrupted\n")
        session.log.note("interrupted")
        return EXIT_INTERRUPTED
    except GpuprovError as error:
        return fail(session, error)
    except Exception as error:  # noqa: BLE001 - the last resort: an unexpected error becomes one line and a log
        return fail_unexpectedly(session, error)
    finally:
        with suppress(KeyboardInterrupt):
            session.close()
    return int(code or 0)


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """An interrupt that came while an object was finalised, where Python would print it and go on: a moment later."""
    if lost.exc_type is KeyboardInterrupt:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, _MOMENT_S)
    else:
        sys.__unraisablehook__(lost)


def _usage_error(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "gpuprov"
    return UsageError(
        error.format_message().rstrip("."),
        evidence=context.get_usage().removeprefix("Usage: ") if context else "",
        fix=f"{path} --help",
    )


class VerbGroup(click.Group):
    """The verbs below `path`, such as `host`; the empty path is gpuprov itself.

    A group that is a verb as well, such as `jobs`, does what its `command` does where no verb follows.
    """

    def __init__(self, path: str, *, help: str) -> None:  # noqa: A002 - click's own name for it
        super().__init__(
            name=path or "gpuprov",
            help=help,
            params=common_options(),
            no_args_is_help=True,
            context_settings=HELP,
        )
        self._path = path

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The verbs directly below, in the table's order."""
        depth = len(self._path.split())
        return [
            path.split()[-1]
            for path in VERBS
            if len(path.split()) == depth + 1 and path.split()[:depth] == self._path.split()
        ]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the verb's module and return its command."""
        path = f"{self._path} {cmd_name}".strip()
        verb = VERBS.get(path) or HIDDEN.get(path)
        if verb is None:
            return None
        if verb.place is None:
            return VerbGroup(path, help=verb.help)
        command = cast("click.Command", verb.load())
        if verb.takes_command:
            return CommandGroup(path, command)
        if any(other.startswith(f"{path} ") for other in VERBS):
            return _as_group(path, command)
        command.name = cmd_name
        command.params += [option for option in common_options() if option.name not in _names(command.params)]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that was typed; of one that does not exist, which one is like it."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            short = VERBS[self._path].digits if self._path in VERBS else ""
            if short and args[0][:1].isdigit():
                command = cast("click.Command", self.get_command(ctx, short))
                return short, command, [*_taken_along(ctx, command), *args]
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", ctx=ctx) from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs that begin so, from the table alone, and options."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=VERBS[f"{self._path} {name}".strip()].help) for name in names]
        short = VERBS[self._path].digits if self._path in VERBS else ""
        if short and (not incomplete or incomplete[0].isdigit()):
            command = cast("click.Command", self.get_command(ctx, short))
            (ids,) = (one for one in command.params if isinstance(one, click.Argument))
            items += ids.shell_complete(ctx, incomplete)
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table alone, without importing them; those of gpuprov itself in sections."""
        sections = {"Verbs": tuple(self.list_commands(ctx))} if self._path else GROUPS
        for title, names in sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, VERBS[f"{self._path} {name}".strip()].help) for name in names])


class CommandGroup(VerbGroup):
    """A verb that takes a command of any name, such as `run`; a verb below it is meant where its name comes first.

    `gpuprov run ps` is the verb; in `gpuprov run -- ps` and `gpuprov run --gpus 1 ps`, it is the command.
    """

    def __init__(self, path: str, command: click.Command) -> None:
        super().__init__(path, help=command.help or "")
        self.callback, self.context_settings, self.no_args_is_help = command.callback, command.context_settings, False
        self.params = [*command.params, *(one for one in self.params if one.name not in _names(command.params))]

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - click's own
    ) -> click.Context:
        """Of a group where a verb below it is meant, and where a shell completes the first word."""
        common = {name for option in common_options() for name in option.opts}
        words = [word for word in args if word not in common]
        first = words[0] if words else None
        if first in self.list_commands(click.Context(self)) or (first is None and extra.get("resilient_parsing")):
            group = VerbGroup(self._path, help=self.help or "")
            group.params = [one for one in self.params if isinstance(one, click.Option)]
            return group.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    # What a command of its own does is that of no group
    parse_args = click.Command.parse_args
    invoke = click.Command.invoke
    collect_usage_pieces = click.Command.collect_usage_pieces
    shell_complete = click.Command.shell_complete


def root() -> click.Group:
    """The whole command line."""
    group = VerbGroup(
        "",
        help=_ABOUT,
    )
    group.params.append(_version_option())
    return group


def _as_group(path: str, command: click.Command) -> VerbGroup:
    """A verb with verbs below it; its own options are refused before one of these, which has them itself."""
    group = VerbGroup(path, help=command.help or "")
    own = [option for option in command.params if option.name not in _names(group.params)]
    group.params += own
    group.invoke_without_command, group.no_args_is_help = True, False
    group.subcommand_metavar = "[COMMAND] [ARGS]..."
    serve = cast("Callable[..., Any]", command.callback)

    def begin(**given: Any) -> Any:  # noqa: ANN401 - click's own
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            return serve(**given)
        for option in own:
            if context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{option.opts[-1]} goes after `{context.invoked_subcommand}`")
        return None

    group.callback = begin
    return group


def _taken_along(context: click.Context, command: click.Command) -> list[str]:
    """The options typed before what stands for a verb, as it has them too: `jobs --cluster lab 8`."""
    common, there, words = _names(common_options()), _names(command.params), list[str]()
    for option in context.command.params:
        name = option.name or ""
        is_typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and is_typed and name in there - common:
            words += [option.opts[-1], *([] if option.is_flag else [str(context.params[name])])]
            context.set_parameter_source(name, ParameterSource.DEFAULT)
    return words


def _version_option() -> click.Option:
    def show(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
        if value:
            click.echo(f"gpuprov {__version__}")
            ctx.exit()

    return click.Option(
        ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=show, help="Show the version."
    )


def _names(params: Iterable[click.Parameter]) -> set[str | None]:
    return {param.name for param in params}
