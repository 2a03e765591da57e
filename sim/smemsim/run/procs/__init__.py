"""A grid over several processes."""
