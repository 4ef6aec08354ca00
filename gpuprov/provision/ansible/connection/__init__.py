"""Connection plugins; the folder is on ANSIBLE_CONNECTION_PLUGINS."""
