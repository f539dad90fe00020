"""Wrappings that leave a module's class and names as they are, under PyTorch's former names.

Takes: a module. Gives: the package `fsdp`, a second name of `facula.distributed.fsdp`.
Keeps true: importing this opens nothing.
"""
