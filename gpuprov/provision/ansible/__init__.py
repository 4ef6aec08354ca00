"""What Ansible itself loads: our connection plugin."""
