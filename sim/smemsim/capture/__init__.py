"""The capture kit: probes that a card answers, and the traces that come of it. `smemsim capture` runs it.

`plan` lists the suites of each card, `runner` runs them, `report` lists what they settled. A suite draws its cases from
a fixed seed, runs the kit's kernels, and writes one trace. Only a card's answers go into a trace. `blackwell/PLAN.md`
has the questions that a Blackwell card would answer.
"""
