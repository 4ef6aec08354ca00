"""What the runtime finds when it is run as engines run it: for `gpuprov gate check`."""

from __future__ import annotations

import json
import sys
import time

if __name__ == "__main__":
    library, folder = sys.argv[1:]
    sys.path.insert(0, library)
    from pathlib import Path

    from gpuprov.core.error_document import error_document, error_parts
    from gpuprov.core.errors import GpuprovError
    from gpuprov.runtime.create import Others
    from gpuprov.runtime.gpus import read_gpus
    from gpuprov.runtime.settings import read_settings

    began_s = time.monotonic()
    try:
        settings = read_settings(Path(folder))
        host = read_gpus(settings)
        claims = Others(settings, container="").claims("")
        said = {
            "gpus": len(host.units),
            "simulated": host.simulated,
            "leases": [str(lease) for lease in claims.leases],
            "silent": {engine: f"{error.what}: {error.evidence}" for engine, error in claims.silent.items()},
            "seconds": round(time.monotonic() - began_s, 3),
        }
    except GpuprovError as error:
        said = error_document(error_parts(error))
    sys.stdout.write(json.dumps(said))
