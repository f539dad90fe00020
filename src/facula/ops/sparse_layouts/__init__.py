"""Sparse tensors: what they are made of, conversions, and how operators treat them.

`ops.sparse` is a namespace of PyTorch's operators, as `ops.quantized` is; hence the longer name.
"""

#: modules that are imported by who asks for their names
ON_DEMAND = ("by_values", "checks", "indices")
