"""What the tensor core computes: the truncated fused dot product, so far for wgmma bf16 x bf16 -> f32 with finite values."""
