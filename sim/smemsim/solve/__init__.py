"""Which descriptors read an operand from where it lies, and which descriptor fault makes a product wrong."""
