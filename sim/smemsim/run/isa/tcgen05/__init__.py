"""The tcgen05 instructions (PTX ISA 9.1 §9.7.16)."""
