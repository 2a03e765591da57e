"""The execution of a linked program: grids, waves, registers, scheduling, launches and their results."""
