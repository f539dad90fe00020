"""Tensors of which each rank has pieces: PyTorch's interface before distributed tensors.

Takes: pieces, or a way to cut. Gives: the packages `sharded_tensor`, `sharding_spec`, the module `metadata`.
Keeps true: importing this opens nothing. New programs use `facula.distributed.tensor`.
"""
