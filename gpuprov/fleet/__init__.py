"""The hosts of this user as one: what is asked of all, this machine in process and the others over ssh."""
