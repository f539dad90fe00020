"""Inductor: flat graphs to fused C kernels behind a small wrapper.

`graph` is the driver, `wrapper` the Python around the kernels, `config` the options, `metrics` the
counters; the loop IR stands in `lower.loops`, the C text in `codegen.c.fused*`.
"""
