"""Layouts: where an element lies. Pure functions over integers, one for each rule of the hardware, and the compiled loops around them."""
