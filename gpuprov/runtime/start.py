"""Where the runtime's Python begins: it has an empty environment, and finds packages in its own library alone."""

from __future__ import annotations

import gc
import os
import sys

if __name__ == "__main__":
    gc.disable()  # until it waits: it would only look through what has just been loaded
    library, *arguments = sys.argv[1:]
    sys.path.insert(0, library)
    os.umask(0o022)  # whatever the engine's is: others read what is written
    from gpuprov.runtime import light_dataclasses

    sys.modules["dataclasses"] = light_dataclasses
    from gpuprov.runtime.create import main

    code = main(arguments)
    sys.stderr.flush()
    os._exit(code)  # at once: to take all apart that has been loaded takes a fifth of the time
