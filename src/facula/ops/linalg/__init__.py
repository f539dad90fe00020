"""Linear algebra: factorisations, systems, spectra, norms and products of matrices."""
