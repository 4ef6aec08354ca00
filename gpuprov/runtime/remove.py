"""A container has ended some seconds ago: it is removed from Docker if it may be. The front starts this."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    library, folder, container, judged, ended = sys.argv[1:]
    sys.path.insert(0, library)
    from pathlib import Path

    from gpuprov.runtime.removal import remove_ended
    from gpuprov.runtime.settings import read_settings

    for place in read_settings(Path(folder)).own:
        remove_ended(container, place.sockets, judged=judged, ended=ended)
