"""Stories of a host that was added: what it does for the controller, and for itself after a boot."""
