"""The programs of `gpuwork` in nodes: what they are asked, and what they answer; knows no role."""
