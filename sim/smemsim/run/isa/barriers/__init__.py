"""Instructions at which threads wait: barriers of CTAs and clusters, and mbarriers."""
