"""Symbolic values: what they are, where they came from, and the graph's tensors among them."""
