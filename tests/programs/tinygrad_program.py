"""tinygrad on its CUDA backend: elementwise, a reduction, a matrix product; its own compiler makes the PTX."""

import sys

import numpy as np

try:
    from tinygrad import Device, Tensor
except ImportError:
    print("needs tinygrad")
    sys.exit(77)
assert Device.DEFAULT == "CUDA", Device.DEFAULT
rng = np.random.default_rng(0)
a, b = (rng.integers(-4, 5, (8, 16)).astype(np.float32) for _ in range(2))
x, y = Tensor(a), Tensor(b)
right = [
    ((x * 2 + y).numpy() == a * 2 + b).all(),
    ((x @ y.T).numpy() == a @ b.T).all(),
    (x.sum(axis=0).numpy() == a.sum(axis=0)).all(),
    ((x > 0).where(x, 0).max().item() == a.max()),
]
print(*right)
