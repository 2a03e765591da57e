"""Matrix instructions on registers and shared memory: `ldmatrix`, `mma.sync`, `wmma`, `wgmma`."""
