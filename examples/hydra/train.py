"""One training; Hydra runs it for every combination of the values on the command line."""

from __future__ import annotations

import logging
import os
import platform
from typing import TYPE_CHECKING

import hydra

if TYPE_CHECKING:
    from omegaconf import DictConfig

log = logging.getLogger(__name__)


@hydra.main(config_path="conf", config_name="config")
def train(config: DictConfig) -> float:
    """Stand for a training: minimise (x - 3)^2 from 0 by gradient descent."""
    x = 0.0
    for _ in range(config.steps):
        x -= config.rate * 2 * (x - 3)
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
    log.info("rate=%s steps=%s x=%.4f node=%s gpu=%s", config.rate, config.steps, x, platform.node(), gpu)
    return (x - 3) ** 2


if __name__ == "__main__":
    train()
