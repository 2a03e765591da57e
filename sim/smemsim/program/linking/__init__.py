"""From PTX to a program: calls inlined, variables placed, products fused, every instruction made a step."""
