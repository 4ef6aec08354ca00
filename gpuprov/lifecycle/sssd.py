"""Bring nodes to the directory of their site: sssd with its file, or without; and have it answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.cluster.services import restart, status_command, stop_well
from gpuprov.cluster.sssd_files import APPLIED, ASK, CONF, MORE, SERVICE, is_about_sssd
from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import File
from gpuprov.shapes.base import parse_json
from gpuprov.spec.people import home_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.roles.base import FilesOf

_ASK_S: Final = 40.0
_SAID: Final = 6 * LINE
# A file of the user's own is no directory of the cluster's; what it has kept of people goes with it
_FORGET: Final = f"rm -f {CONF} {MORE}; rm -rf /var/lib/sss/db/* /var/lib/sss/mc/*"


# Homes are made as a login makes them; 3 where sssd does not know that name, or has another home for it
_ENTER: Final = """\
[ "$(getent -s sss passwd "$1" | cut -d: -f6)" = "$2" ] || exit 3
exec mkhomedir_helper "$1" 0077
"""
_NOBODY: Final = 3


def enter_directory_home(driver: Driver, node: str, person: str) -> bool:
    """Make the home of somebody of the directory, where there is none; whether a node's sssd knows them.

    Raises:
        EngineError: The home could not be made.
    """
    said = driver.run(node, ["sh", "-c", _ENTER, "sh", person, home_of(person, shared=True)], timeout_s=_ASK_S)
    if said.exit_code not in (0, _NOBODY):
        raise EngineError(
            f"{person} cannot have a home on {node}",
            evidence=excerpt((said.stderr or said.stdout).strip() or f"exit status {said.exit_code}", LINE),
            fix=f"gpuprov exec {node} -- mkhomedir_helper {person} 0077",
        )
    return said.exit_code == 0


def settle_sssd(
    driver: Driver,
    stale: Mapping[str, Sequence[File]],
    files: FilesOf,
    *,
    new: Sequence[str] = (),
    reporter: Reporter,
) -> None:
    """Write what nodes lack of a site's sssd.conf and start sssd again, or stop it; then wait until it answers.

    A digest is taken away first and written last, so that a run that is killed in between is seen by the next.

    Args:
        driver: Reaches the nodes.
        stale: By node, the files that it lacks or has otherwise; those about other things are left alone.
        files: All files of a node as they are to be.
        new: Nodes that were made with their files.
        reporter: Hears of the phase.

    Raises:
        EngineError: It does not answer, with its own words; or a node could not be brought to it.
    """
    lacking = {name: [file for file in files if is_about_sssd(file)] for name, files in stale.items()}
    old = [name for name, files in lacking.items() if files]
    begun = [name for name in new if _has_sssd(files(name))]
    if not old and not begun:
        return
    with reporter.phase(SERVICE):
        each(lambda name: _restart(driver, name, lacking[name], wanted=_has_sssd(files(name))), old)
        each(lambda name: _wait(driver, name), [*begun, *(name for name in old if _has_sssd(files(name)))])
        each(lambda name: driver.push(name, [file for file in files(name) if file.path == APPLIED]), old)


def _has_sssd(files: Sequence[File]) -> bool:
    return any(file.path == CONF for file in files)


def _restart(driver: Driver, name: str, files: Sequence[File], *, wanted: bool) -> None:
    driver.push(name, [File(path=APPLIED, content=b"")])
    if wanted:
        driver.push(name, [file for file in files if file.path != APPLIED])
        restart(driver, name, SERVICE)  # whether it came back, it says itself
    else:
        stop_well(driver, name, SERVICE)
        driver.run(name, ["sh", "-c", _FORGET], timeout_s=_ASK_S)


def _wait(driver: Driver, name: str) -> None:
    said = driver.run(name, [ASK, "--wait"], cwd="/", timeout_s=_ASK_S)
    answers, words = False, said.stderr
    if said.exit_code == 0:
        try:
            told: Any = parse_json(said.stdout)
            answers, words = told["answers"] is True, str(told["said"])
        except (ValueError, KeyError, TypeError):
            words = said.stdout
    if not answers:
        raise EngineError(
            f"sssd does not start on {name}",
            evidence=excerpt(words.strip() or "it says nothing", _SAID),
            fix=f"correct the sssd.conf that the spec names; {status_command(driver, name, SERVICE)}",
        )
