"""A GPU that runs PTX: warps in vectorised steps over the machine's memories, and a watch on what they do to them."""
