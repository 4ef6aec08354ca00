"""gpuprov turns a GPU machine into a cluster of GPU nodes and proves that each node works."""

__version__ = "0.1.0"
