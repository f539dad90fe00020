"""Loop IR to Triton text: kernels for devices that Triton compiles for."""
