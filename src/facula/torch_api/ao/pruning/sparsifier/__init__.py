"""What computes masks of weights, one module for each way."""
