"""Loop IR to C text, and the templates of kernels that are no loops: `c` writes C.

`triton` writes kernels for devices."""
