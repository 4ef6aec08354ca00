"""GPUs for any container: what an engine runs in place of runc.

It is copied into a folder of root's and run there with `python3 -I -S`, so it imports the standard library, core and
gpu alone.
"""
