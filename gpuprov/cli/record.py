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
    """Print this host's GPU facts as one JSON document, for replay in a test or for a bug report.

    It contains devices, driver files in /proc and /sys, names of the driver's libraries, kernel, cgroup version, and
    NVML's answers. It contains UUIDs and PCI addresses of GPUs, but no host names, serial numbers or network addresses.
    """
    from gpuprov.machine.record import take_record

    record = take_record(session.host.root)
    session.show(record, json.dumps(record, indent=2, ensure_ascii=False))
