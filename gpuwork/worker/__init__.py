"""The process that takes work from the queue of a cluster, for one GPU."""
