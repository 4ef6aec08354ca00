"""What nodes run for their users: jobs, and runs of parameter grids.

The package stands alone: Python's standard library and PyYAML, nothing of gpuprov. Nodes have a copy of it.
"""
