"""`facula.fx.experimental`: tracing of operators, symbolic sizes, passes for inference.

Thin modules are imported when they are first asked for.
"""
