"""The command line: `smemsim decode`, `map`, `replay`."""
