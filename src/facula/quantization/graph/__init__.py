"""Graph mode: what `prepare_fx` and `convert_fx` are made of.

Gives: `matching` (patterns in graphs), `fusing` (layers that become one), `configurations` (what a node is quantized
with), `observing` (observers in graphs), `custom` (modules with forms of their own), `converting` (observers to
integers) and `lowering` (integers to the operators that compute with them). Keeps true: what is quantized follows
from a `BackendConfig`; between observing and lowering a graph says everything in float operators,
`quantize_per_tensor` and `dequantize`, which is what a reference model is.
"""
