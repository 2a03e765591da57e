"""What a kernel author writes down: descriptors and tensor maps, decoded, encoded and judged."""
