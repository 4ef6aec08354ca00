"""What nodes run for their users: jobs, workers, runs of parameter grids, and CUDA programs.

The package stands alone: Python's standard library, PyYAML for grids and programs, Celery for workers, and Dask for
programs; nothing of gpuprov. Nodes have a copy of it.
"""
