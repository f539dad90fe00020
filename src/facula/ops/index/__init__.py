"""Indexing: by tensors, along a dimension, by masks, gather and scatter, search."""
