"""What one verb does, from end to end, for 1..n hosts; each reads as a paragraph."""
