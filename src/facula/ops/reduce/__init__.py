"""Reductions, scans, order and statistics; masked forms of them."""

#: modules that are imported by who asks for their names
ON_DEMAND = ("masked_forms",)
