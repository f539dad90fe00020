"""Operators that are forms of others: PyTorch's low-level names, other arguments, and what traces keep."""

#: modules that are imported by who asks for their names
ON_DEMAND = ("narrow", "on_demand", "rare")
