"""Sliding over space: convolutions, pooling, windows, resampling."""

#: modules that are imported by who asks for their names
ON_DEMAND = ("grid_sample_second",)
