"""PTX as compilers write it: read into functions, registers, variables and instructions, each with its line."""
