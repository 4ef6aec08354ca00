"""`gpuprov record`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.pass_obj
def command(session: Session) -> None:
    """Print this host's GPU facts as one JSON document, to replay in a test or to send with a bug report.

    Devices, driver files in /proc and /sys, names of the driver's libraries, kernel, cgroup and NVML's answers. No host
    names, serial numbers or network addresses; the UUIDs and PCI addresses of GPUs are in it.
    """
    from gpuprov.host.record import take_record

    record = take_record(session.host.root)
    session.show(record, json.dumps(record, indent=2, ensure_ascii=False))
