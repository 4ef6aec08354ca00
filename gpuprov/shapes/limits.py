"""What clusters, jobs and annealing can ask for at most, and be called; needs no package: the command line tells it."""

NODES_MAX = 253  # of a cluster: what a /24 holds next to the gateway
MOST_RUNS = 10_000
MOST_WORKERS = 1000  # of a program
MOST_GPUS = 64  # of a machine
MOST_SHARDS = 64  # of a GPU
DEEPEST = 8  # so deep arguments and the values of a grid are nested
PIECE_BYTES = 256 * 1024  # of a log, in one answer
MOST_WORDS = 10_000
MOST_CHAINS = 100_000_000
LONGEST_S = 365 * 24 * 3600
FREE_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"  # of a job, a run, a program or a project, as its user likes
MIB = 1024**2
GIB = 1024**3
LEAST_BYTES = MIB
MOST_BYTES = 1024**5
