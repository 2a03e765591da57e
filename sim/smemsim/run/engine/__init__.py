"""What executes a linked program: grids, waves, registers, scheduling, launches and their results."""
