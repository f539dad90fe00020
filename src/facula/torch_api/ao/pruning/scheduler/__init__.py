"""How the level of sparsity goes from step to step, one module for each way."""
