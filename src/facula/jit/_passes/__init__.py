"""PyTorch's folder of tools for passes over graphs."""
