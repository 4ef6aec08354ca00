"""A cluster's spec as one line of JSON, the form in which it is recorded as a label on the cluster's network."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from gpuprov.core.errors import Problem, SpecError
from gpuprov.spec.document import WHOLE, parse_json
from gpuprov.spec.load import API_VERSION, decode_spec
from gpuprov.spec.schema import Decoder

if TYPE_CHECKING:
    from gpuprov.spec.models import ClusterSpec


def dump_spec(spec: ClusterSpec) -> str:
    """Write a spec with every key in it, so that a later change of defaults does not change what was asked for."""
    return json.dumps({"version": API_VERSION, **dataclasses.asdict(spec)}, sort_keys=True, separators=(",", ":"))


def load_spec_json(text: str) -> ClusterSpec:
    """Read what `dump_spec` wrote.

    The meaning is not checked again: a folder that a mount needs may be gone, and the cluster must still be found.

    Raises:
        SpecError: It is not what `dump_spec` writes.
    """
    decoder = Decoder()
    spec = None
    try:
        spec = decode_spec(parse_json(text), decoder)
    except (ValueError, RecursionError) as error:
        decoder.problems.append(Problem(path=WHOLE, message=f"not JSON: {error}"))
    if spec is None or decoder.problems:
        raise SpecError(
            "the spec recorded with the cluster cannot be read",
            problems=tuple(decoder.problems),
            fix="gpuprov cluster up -f SPEC records it again; gpuprov cluster down removes the cluster",
        )
    return spec
