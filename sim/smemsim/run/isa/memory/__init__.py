"""The state spaces, and the instructions that read and write them thread by thread."""
