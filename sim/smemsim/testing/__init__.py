"""For other people's tests: Hypothesis strategies, other people's answers as oracles, a pytest plugin that replays golden traces and checks
scenarios, a recorder of traces.

`smemsim.testing.strategies` and `smemsim.testing.oracles` need hypothesis, `smemsim.testing.plugin` pytest, `smemsim.testing.recorder` a GPU and
cuda-bindings; nothing else of smemsim imports any of these.
"""
