"""What is done with nodes whatever their role, which the registry knows."""
