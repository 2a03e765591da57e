"""A folder that `smemsim exec` puts on the path of Python programs: `sitecustomize` opens the doors in them."""
