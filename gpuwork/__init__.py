"""What nodes run for their users: jobs, workers, and runs of parameter grids.

The package stands alone: Python's standard library, PyYAML for grids, and Celery for workers; nothing of gpuprov. Nodes
have a copy of it.
"""
