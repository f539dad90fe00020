"""C: text of kernels and of compiled programs, printed from loops (`fused_*`, `loops*`) or from templates."""
