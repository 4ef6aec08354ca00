"""Parts of stories over hosts: a cluster as its hosts say, what is asked of them, and the way to their nodes."""
