"""Jobs on the nodes of a Slurm cluster: handed in, run, listed and cancelled from within a node."""
