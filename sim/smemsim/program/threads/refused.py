"""Families of instructions that are known and not modelled, with the reason for the user; single ones are refused where they would stand."""

from __future__ import annotations

from smemsim.program.registry import refuse

refuse("textures and surfaces, of which the launch would need descriptors", "tex", "tld4", "txq", "istypep", "suld", "sust", "sured", "suq")
refuse("memory of several GPUs", "multimem")
