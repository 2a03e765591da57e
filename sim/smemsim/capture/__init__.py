"""The capture kit: probes that a card answers, and the traces that come of it. The command is `smemsim capture`.

The suites of each card are listed by `plan`. They are run by `runner`. Settled questions are listed by `report`. A
suite draws its cases from a fixed seed, runs the kit's kernels, and writes one trace. Only a card's answers go into a
trace. `blackwell/PLAN.md` has the questions that a Blackwell card would answer.
"""
