"""Which descriptors read an operand from where it lies, and which nearly do."""
