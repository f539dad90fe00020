"""Ahead-of-time differentiation: captured programs as functional graphs, forward and backward.

See `docs/compiler.md`.  `tracing` makes the joint graph, `partition` and `min_cut` take it apart,
`runtime` runs the compiled parts as eager execution would, `api` puts all of it together.
"""
