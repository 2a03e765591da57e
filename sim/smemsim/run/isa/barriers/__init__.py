"""What threads wait at: barriers of CTAs and clusters, and mbarriers."""
