"""What `ask-sssd` of a node's image tells of sssd's logs: its own words, and no password of its file."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[3] / "roles/sssd/files/programs/usr/lib/gpuprov/ask-sssd"
CONF = "[domain/site]\nid_provider = ldap\nldap_default_authtok = hunter2\n"
# As sssd 2.8 writes it: a failure is followed by all of the configuration
LOG = """\
(2026-11-28 17:47:17): [sssd] [main] (0x0010): of an earlier start
(2026-11-28 17:47:18): [sssd] [server_setup] (0x3f7c0): Starting with debug level = 0x0070
(2026-11-28 17:47:18): [sssd] [svc_child_info] (0x0040): Child [8] ('site':'%BE_site') exited with code [3]
********************** PREVIOUS MESSAGE WAS TRIGGERED BY THE FOLLOWING BACKTRACE:
   *  (2026-11-28 17:47:18): [sssd] [confdb_init_db] (0x0100): LDIF file to import:
dn: cn=site,cn=domain,cn=config
ldap_default_authtok: hunter2
********************** BACKTRACE DUMP ENDS HERE *********************************
(2026-11-28 17:47:24): [sssd] [monitor_restart_service] (0x0010): Process [site], definitely stopped!
"""
DOMAIN = """\
(2026-11-28 17:47:18): [be[site]] [dp_target_init] (0x0010): Unable to load module hunter2
(2026-11-28 17:47:20): [be[site]] [dp_target_init] (0x0010): Unable to load module hunter2
"""
BEGAN = time.mktime((2026, 11, 28, 17, 47, 18, 0, 0, -1))


@pytest.fixture
def program(tmp_path: Path) -> dict[str, Any]:
    """Its functions, on logs of the test's own."""
    (tmp_path / "sssd.conf").write_text(CONF)
    (tmp_path / "start.err").touch()
    os.utime(tmp_path / "start.err", (BEGAN, BEGAN))
    source = PROGRAM.read_text()
    for place in ("/var/log/sssd", "/etc/sssd", "/var/lib/sss/pipes"):
        assert place in source
        source = source.replace(place, str(tmp_path))
    functions: dict[str, Any] = {"__name__": "ask_sssd"}
    exec(compile(source.removesuffix("\nmain()\n") + "\n", str(PROGRAM), "exec"), functions)
    return functions


def test_words_are_of_this_start_each_once_the_domains_first(program: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "sssd.log").write_text(LOG)
    (tmp_path / "sssd_site.log").write_text(DOMAIN)
    words = program["last_words"]()
    assert words == "[be[site]] Unable to load module (hidden); [sssd] Process [site], definitely stopped!"


def test_what_it_says_before_it_has_logs_comes_alone(program: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "sssd.log").write_text(LOG)
    (tmp_path / "start.err").write_text("[sssd] [get_monitor_config] (0x0010): Invalid service nosuch\n")
    assert program["last_words"]() == "[sssd] Invalid service nosuch"


def test_long_and_many_words_are_cut(program: dict[str, Any], tmp_path: Path) -> None:
    line = "(2026-11-28 17:47:19): [be[{0}]] [x] (0x0020): {1} {2}\n"
    for domain in "abcdef":
        text = "".join(line.format(domain, number, "x" * 5000) for number in range(2000))
        (tmp_path / f"sssd_{domain}.log").write_text(text)
    assert len(program["last_words"]()) < 3000


def test_it_answers_where_somebody_listens(program: dict[str, Any], tmp_path: Path) -> None:
    assert program["answers"]() is False
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "nss"))
        listening.listen()
        assert program["answers"]() is True
    assert program["answers"]() is False
