"""CUDA kernels that prove a GPU computes, moves and repeats exactly.

The package stands alone: numba-cuda, numpy and nvidia-ml-py, nothing of gpuprov. It is copied into nodes
and run there as `python3 -m smoke_kernels matmul anneal membw --json`.
"""

from typing import Final

SCHEMA: Final = "gpuprov.smoke/v1"
