"""Pictures as values, and as text, SVG and HTML: grids of cells, tables, strips, pages. Nothing here knows what is
drawn.
"""
