"""What the smallest grid asks for."""

param2requests = {"x": [1, 2]}
param2default = {"x": 0}
