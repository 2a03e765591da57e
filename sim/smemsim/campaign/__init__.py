"""Sweeps of whole spaces of inputs: what was covered, class by class, and what disagrees."""
