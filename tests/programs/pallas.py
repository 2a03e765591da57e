"""JAX on XLA's CUDA plugin: what XLA fuses, a product, a kernel of Pallas by Triton and one by Mosaic GPU."""

import functools
import importlib.util
import sys

if not any(importlib.util.find_spec(f"jax_plugins.xla_cuda{major}") for major in (12, 13) if importlib.util.find_spec("jax_plugins")):
    print("needs JAX's CUDA plugin (jax-cuda13-plugin, jax-cuda13-pjrt)")
    sys.exit(77)

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu, triton

x, y = np.arange(256, dtype=np.float32), np.ones(256, np.float32)


def add(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


block = pl.BlockSpec((64,), lambda i: (i,))
by_triton = pl.pallas_call(
    add,
    out_shape=jax.ShapeDtypeStruct((256,), jnp.float32),
    grid=(4,),
    in_specs=[block, block],
    out_specs=block,
    compiler_params=triton.CompilerParams(num_warps=4),
)
by_mosaic = functools.partial(mosaic_gpu.kernel, out_type=jax.ShapeDtypeStruct([256], jnp.float32))(add)
square = x.reshape(16, 16)
print(jax.devices()[0].device_kind)
print(
    *((np.asarray(f(x, y)) == x + y).all() for f in (jax.jit(jnp.add), by_triton, by_mosaic)),
    np.abs(np.asarray(jnp.dot(square, square / 256) - square @ square / 256)).max() < 1,
)
