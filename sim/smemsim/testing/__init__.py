"""Helpers for tests: Hypothesis strategies, oracles, a pytest plugin for golden traces and scenarios, a recorder of
traces.

`smemsim.testing.strategies` and `smemsim.testing.oracles` need hypothesis, `smemsim.testing.plugin` pytest,
`smemsim.testing.recorder` a GPU and cuda-bindings. No other module of smemsim imports these packages.
"""
