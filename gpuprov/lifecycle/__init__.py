"""What one host does with a cluster and its nodes, whatever their role."""
