"""Families of instructions that are known and not modelled, with the reason for the user; single ones are refused
where they would stand.
"""

from __future__ import annotations

from smemsim.run.isa.registry import refuse

refuse("memory of several GPUs", "multimem")
