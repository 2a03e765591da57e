"""`python -m smemsim`."""

from smemsim.cli import main

main(prog_name="smemsim")
