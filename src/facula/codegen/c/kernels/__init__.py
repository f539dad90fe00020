"""Templates: kernels that are no loops (products, convolutions, sorting, transforms); each has `unit` or `units`."""
