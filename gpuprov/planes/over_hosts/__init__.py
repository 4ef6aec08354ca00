"""What a host tells and is told of a cluster that spans hosts, its planes included."""
