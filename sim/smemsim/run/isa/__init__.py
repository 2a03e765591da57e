"""The effect of each PTX instruction: one file for each family of instructions."""
