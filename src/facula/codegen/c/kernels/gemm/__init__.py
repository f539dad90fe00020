"""Matrix products: tiles, packing, epilogues; quantized and weight-only ones."""
