"""The sanitizer: what orders the accesses of a kernel, and what is still in flight."""
