"""Jobs on the nodes of a cluster: handed in, run, listed and cancelled from within a node."""
