"""The machine: global, shared and tensor memory as bytes with owners, and the instructions that act on them."""
