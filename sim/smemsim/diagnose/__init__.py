"""What is wrong, from what came out."""
