"""From an operand tile to everything a kernel author writes down: boxes, tensor map, descriptors, advances, layouts, code."""
