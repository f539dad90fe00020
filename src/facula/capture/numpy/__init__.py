"""NumPy in captured programs: arrays are tensors of the graph."""
