"""Scalar expressions: what bodies of operators are written in, their derivatives, and rows of them."""
