"""Copies between memories: `cp.async`, bulk copies, tensor copies and the maps they read."""
