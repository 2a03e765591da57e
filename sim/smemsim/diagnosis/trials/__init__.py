"""Fixes that are executed before they are printed: changes of the PTX, run again with the same inputs."""
