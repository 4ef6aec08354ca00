"""Stories of the controller: what is done on the hosts of a cluster that spans several, by asking each."""
