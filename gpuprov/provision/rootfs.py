"""The base root file system of an image: built by mmdebstrap from the distribution's packages, kept in a cache."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady, TimedOut
from gpuprov.core.execution import CommandFailed, CommandMissing, run, run_followed
from gpuprov.core.exhaustion import room_fix
from gpuprov.core.fingerprint import fingerprint, short
from gpuprov.core.follower import Follower
from gpuprov.core.limits import Limits
from gpuprov.core.own_folders import home_folder
from gpuprov.core.silence_limit import more_patience, silence_limit_s
from gpuprov.provision.kept_bases import keep_base, take_base
from gpuprov.provision.kept_packages import forget_packages, kept_packages
from gpuprov.provision.progress import BaseProgress
from gpuprov.provision.recipe import hash_folder
from gpuprov.provision.unfinished import unfinished_file, unfinished_folder
from gpuprov.spec.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuprov.provision.kept_bases import Base

ANSWER_S = 30
_FETCHING = re.compile(r"fetch|resolve|connect", re.IGNORECASE)
NO_KEY_FIX = "apt-get install ubuntu-keyring debian-archive-keyring  # the keys of the suite's distribution"
# Of what mmdebstrap does once it has the packages
_HERE = re.compile(r"E: mount |Read-only file system|error processing|errors were encountered|/dpkg ", re.IGNORECASE)
HOOKS = Path(__file__).parent / "hooks"
# Where gpuprov is killed, mmdebstrap, all that it started and its mounts go at once; its files go with the next build.
_ALONE = ("setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child")


def default_cache() -> Path:
    """Where root file systems and wheels are kept: of the machine for root, else of the user."""
    return Path("/var/cache/gpuprov") if os.geteuid() == 0 else home_folder() / ".cache" / "gpuprov"


def can_build() -> bool:
    """Whether mmdebstrap is there, and all that it needs: its files are there before that."""
    argv = ["dpkg-query", "--show", "--showformat", "${db:Status-Status}", "mmdebstrap"]
    try:
        return run(argv, timeout_s=ANSWER_S, check=False).stdout == "installed"
    except CommandMissing:
        return shutil.which("mmdebstrap") is not None


def render_mmdebstrap(suite: str, packages: Sequence[str], target: Path, *, hooks: Path = HOOKS) -> list[str]:
    """The command line that builds the tar."""
    return [
        "mmdebstrap",
        "--verbose",
        "--variant=apt",
        "--format=tar",
        f"--components={'main,universe' if SUITES[suite].ubuntu else 'main'}",
        '--aptopt=Apt::Install-Recommends "false"',
        '--aptopt=Acquire::Languages "none"',
        # A mirror that hangs fails here and, as the image keeps these lines, in the node; apt waits for two minutes.
        *(f'--aptopt=Acquire::{scheme}::Timeout "{ANSWER_S}"' for scheme in ("http", "https")),
        '--aptopt=Acquire::Retries "1"',
        "--dpkgopt=force-unsafe-io",
        f"--hook-dir={hooks}",
        f"--include={','.join(packages)}",
        suite,
        str(target),
    ]


@contextlib.contextmanager
def _workshop(packages: Sequence[str], kept: Path | None) -> Iterator[Path]:
    """A folder of hooks, with what they need to know, and `tmp`; also for the user that a user's mmdebstrap runs as."""
    folder = unfinished_folder(Path(tempfile.gettempdir()), "gpuprov-base")
    try:
        for hook in HOOKS.glob("*.sh"):
            (folder / hook.name).write_bytes(hook.read_bytes())
            (folder / hook.name).chmod(0o755)
        (folder / "packages").write_text("\n".join(packages), encoding="utf-8")
        (folder / "packages").chmod(0o644)
        if kept is not None:
            (folder / "kept").symlink_to(kept)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o755 if os.geteuid() == 0 else 0o1777)
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _starter() -> tuple[str, ...]:
    """What mmdebstrap is started by: a user's has namespaces of its own, and a container may forbid them."""
    if os.geteuid() != 0:
        return ()
    with contextlib.suppress(CommandMissing):
        return _ALONE if run([*_ALONE, "true"], timeout_s=ANSWER_S, check=False).exit_code == 0 else ()
    return ()


def ensure_rootfs(
    base: Base,
    *,
    cache: Path,
    silence_s: float | None = None,
    tell: Callable[[str], object] = lambda _state: None,
    stop: threading.Event | None = None,
    fresh: bool = False,
) -> Path:
    """The tar of a base; built once and kept for a week.

    Args:
        base: What is to be in it.
        cache: Where it is kept.
        silence_s: For how long mmdebstrap may do nothing; None for the usual limit.
        tell: Is told how far it is.
        stop: Once this is set, mmdebstrap is ended.
        fresh: Whether to build it though it is there.

    Raises:
        HostNotReady: mmdebstrap is missing, or it failed.
        TimedOut: It did nothing for `silence_s`, as where a mirror does not answer.
    """
    argv = render_mmdebstrap(base.suite, base.packages, Path("-"), hooks=Path("-"))
    kept = base.place(cache, short(fingerprint([*argv, hash_folder(HOOKS)])))
    if not fresh and take_base(kept):
        return kept
    _require_mmdebstrap()
    limit_s = silence_s or silence_limit_s()
    unfinished = unfinished_file(cache, "rootfs")
    progress = BaseProgress()

    def hear(lines: Sequence[str]) -> None:
        state = progress.hear(lines)
        if state:
            tell(state)

    try:
        _build(base, unfinished, cache, limit_s, Follower(hear=hear, stop=stop or threading.Event()))
        keep_base(unfinished, kept)
        forget_packages(cache)
    except (CommandFailed, TimedOut) as failed:
        if progress.fetched and isinstance(failed, CommandFailed):
            forget_packages(cache)  # all were there, and could not be installed
        raise _explained(failed, base.suite, cache, limit_s) from failed
    finally:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
        kept_packages(cache)  # what holds none goes
    return kept


def _require_mmdebstrap() -> None:
    if shutil.which("mmdebstrap") is None:
        raise HostNotReady(
            "mmdebstrap is not installed; it builds the base of an image",
            evidence=f"not in {os.environ.get('PATH', os.defpath)}",
            fix="sudo gpuprov host prepare",
        )


def _build(base: Base, target: Path, cache: Path, limit_s: float, follower: Follower) -> None:
    """Run mmdebstrap, with the packages that an earlier build has fetched."""
    with _workshop(base.packages, kept_packages(cache)) as folder:
        argv = render_mmdebstrap(base.suite, base.packages, target, hooks=folder)
        environment = {"TMPDIR": str(folder / "tmp")}
        limits = Limits(silence_s=limit_s)
        run_followed(argv, limits=limits, follower=follower, starter=_starter(), environment=environment)


def _explained(failed: CommandFailed | TimedOut, suite: str, cache: Path, limit_s: float) -> CommandFailed | TimedOut:
    """The same error, with the base that could not be built and what to do about it."""
    fix = room_fix(failed.evidence, tempfile.gettempdir(), cache) or _fix(suite, failed.evidence)
    return type(failed)(
        f"the base root file system {suite} could not be built: {failed.what}",
        evidence=failed.evidence,
        fix=f"{fix}; {more_patience(limit_s)}" if isinstance(failed, TimedOut) else fix,
    )


def _fix(suite: str, evidence: str) -> str:
    if "NO_PUBKEY" in evidence:
        return NO_KEY_FIX
    by_hand = f"mmdebstrap --variant=apt {suite} /dev/null"
    if _HERE.search(evidence) and not _FETCHING.search(evidence):
        return f"the mirror answers; check this machine: gpuprov doctor; then manually: {by_hand}"
    return f"check whether this machine can reach the mirror: apt-get update; then manually: {by_hand}"
