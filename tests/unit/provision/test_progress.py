from __future__ import annotations

import pytest

from gpuprov.provision.progress import BaseProgress, hear_pip

SAID = """\
I: running --setup-hook directly: /tmp/hooks/setup.sh /tmp/mmdebstrap.x
Get:1 http://deb.debian.org/debian bookworm InRelease [151 kB]
0 upgraded, 3 newly installed, 0 to remove and 0 not upgraded.
Need to get 63.6 MB of archives.
After this operation, 202 MB of additional disk space will be used.
Get:1 http://deb.debian.org/debian bookworm/main amd64 gcc-12-base amd64 12.2.0-14+deb12u1 [37.6 kB]
Get:3 http://security.debian.org/debian-security bookworm-security/main amd64 liblzma5 amd64 5.4.1-1 [206 kB]
I: downloading packages with apt...
0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.
Need to get 0 B/38.0 MB of archives.
I: extracting archives...
I: installing essential packages...
Setting up gcc-12-base:amd64 (12.2.0-14+deb12u1) ...
I: installing remaining packages inside the chroot...
0 upgraded, 1 newly installed, 0 to remove and 0 not upgraded.
Setting up munge (0.5.15-2) ...
I: creating tarball...
"""


def test_progress_is_told_in_packages_of_all_that_there_are() -> None:
    progress = BaseProgress()
    assert [state for line in SAID.splitlines() if (state := progress.hear([line]))] == [
        "fetching the lists of packages",
        "fetched 1 of 3 packages (63.6 MB)",
        "fetched 3 of 3 packages (63.6 MB)",
        "unpacking the essential packages",
        "installed 1 of 3 packages",
        "installed 2 of 3 packages",
        "writing the tar file",
    ]


def test_of_the_lines_of_a_moment_the_last_one_counts() -> None:
    assert BaseProgress().hear(SAID.splitlines()) == "writing the tar file"
    assert BaseProgress().hear([]) == ""


def test_what_the_last_run_fetched_is_not_counted_again() -> None:
    progress = BaseProgress()
    lines = ("0 upgraded, 166 newly installed, 0 to remove", "Need to get 20.1 MB/63.6 MB of archives.", "Get:1 x")
    assert progress.hear(lines) == "fetched 1 of 166 packages (20.1 MB of 63.6 MB missing)"


def test_all_is_there_once_it_is_unpacked() -> None:
    progress = BaseProgress()
    progress.hear(SAID.splitlines()[:8])
    assert not progress.fetched
    progress.hear(["I: extracting archives..."])
    assert progress.fetched


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("  Downloading numpy-2.3.5-cp311.whl (16.9 MB)", "numpy-2.3.5-cp311.whl (16.9 MB)"),
        ("Downloading https://index.example/p/numba-0.6.whl (3.9 MB)", "numba-0.6.whl (3.9 MB)"),
        ("  Downloading numpy-2.3.5.whl.metadata (62 kB)", "numpy-2.3.5.whl (62 kB)"),
        ("Collecting numpy", ""),
        ("Saved ./numpy-2.3.5.whl", ""),
    ],
)
def test_the_wheel_that_pip_fetches_is_told(line: str, state: str) -> None:
    assert hear_pip([line]) == (f"fetching {state}" if state else "")
