"""The emitter: loops of eager kernels and of compiled graphs, printed as C."""
