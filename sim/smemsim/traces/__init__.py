"""Golden traces: what silicon did, in files that can be loaded, verified and replayed against the model."""
