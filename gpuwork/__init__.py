"""What nodes run for their users: runs of parameter grids so far.

The package stands alone: Python's standard library and PyYAML, nothing of gpuprov. Nodes have a copy of it.
"""
