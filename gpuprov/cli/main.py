"""The program: run the verb, turn what it raises into words and an exit code."""

from __future__ import annotations

import gc
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from gpuprov.cli.failure import fail, fail_unexpectedly
from gpuprov.cli.root import root
from gpuprov.cli.session import Session, tell
from gpuprov.cli.settings import name_what_is_implied
from gpuprov.cli.stdout import flush_result, leave_streams, prepare_streams
from gpuprov.core.errors import GpuprovError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.machine.base import Host

EXIT_INTERRUPTED = 130
_GARBAGE_AFTER = 100_000  # objects; with Python's 700, a short verb looks for garbage for a thirtieth of its time
_MOMENT_S = 0.01


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
