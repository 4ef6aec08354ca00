"""What is done with nodes whatever their plane, which the registry knows."""
