"""What each PTX instruction does: one file for each family of instructions."""
