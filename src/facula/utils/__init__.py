"""Tools around tensors and training, under the names that PyTorch gives them.

Re-exports and thin modules; nothing else.
"""
