from __future__ import annotations

import errno
import os

import pytest

from gpuprov.core.exhaustion import explain_exhaustion, room_fix


def raised(number: int, path: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), path) if path else OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("error", "what", "fix"),
    [
        (raised(errno.ENOSPC, "/var/cache/gpuprov/x"), "a disk of this machine is full", "df -h /var/cache/gpuprov"),
        (raised(errno.ENOSPC), "a disk of this machine is full", "df -h /scratch"),
        (raised(errno.EDQUOT, "/home/ada/y"), "disk quota", "df -h /home/ada"),
        (raised(errno.EROFS, "/etc/z"), "read-only", "findmnt -T /etc"),
        (raised(errno.EACCES, "/root/x"), "no access", "ls -ld /root/x /root"),
        (raised(errno.EPERM, "/root/x"), "no access", "ls -ld /root/x /root"),
        (raised(errno.EMFILE), "too many open files", "ulimit -n"),
        (raised(errno.ENOMEM), "out of memory", "free -h"),
    ],
)
def test_what_ran_out_is_named_with_what_to_type(error: OSError, what: str, fix: str) -> None:
    explained = explain_exhaustion(error, temporary="/scratch")
    assert explained is not None
    assert what in explained.what
    assert explained.evidence == str(error)
    assert explained.fix.startswith(fix)
    assert explained.exit_code == 3


def test_other_errors_are_none_of_it() -> None:
    assert explain_exhaustion(raised(errno.ENOENT, "/x"), temporary="/tmp") is None


def test_a_program_says_it_in_its_own_words() -> None:
    said = "E: write(2) failed: No space left on device"
    assert room_fix(said, "/tmp", "/var/cache").startswith("df -h /tmp /var/cache ")  # type: ignore[union-attr]
    assert room_fix("E: Unable to fetch", "/tmp") is None
