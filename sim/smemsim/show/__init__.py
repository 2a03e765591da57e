"""How things are shown: terminal views and SVG."""
