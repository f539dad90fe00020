"""Quantization of scripted modules: `ao.quantization.quantize_jit`.

Gives: `flat` and `trees` (a module as one graph, and module trees with classes of their own), `roles` (what a node is
to quantization), `norms` and `observing` (what stands before the first run), `converting`, `tables`, `spreading` and
`fusing` (from observers to integers). Keeps true: what operators are follows from their definitions.
"""
