"""Global and shared memory as bytes with owners, and the instructions that act on them."""
