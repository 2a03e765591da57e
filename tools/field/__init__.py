"""Other people's programs on the virtual GPU: which of them, and what became of them."""
