"""Modules of quantized models: fused ones, those for training, those of integers, dynamic ones.

Gives: `stubs`, `intrinsic`, `qat`, `quantized`, `functional` and `dynamic`, which `facula.ao.nn` has under PyTorch's
names.
"""
