"""CUDA programs: built once for each kind of GPU, and run in iterations over a table whose rows many GPUs share."""
