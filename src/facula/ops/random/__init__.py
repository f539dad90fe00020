"""Random draws: from facula's streams, from PyTorch's, and as functions of a state."""

#: modules that are imported by who asks for their names
ON_DEMAND = ("drawing", "ranges")
