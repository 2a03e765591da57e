"""Words: the 64-bit, 32-bit and 128-byte values that a kernel author writes, decoded, encoded and checked."""
