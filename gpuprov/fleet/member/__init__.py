"""What a host that was added does for its controller: each request by a story that a user there would run."""
