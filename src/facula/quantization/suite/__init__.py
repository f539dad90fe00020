"""The numeric suite of graph mode: a model beside its quantized form, layer by layer.

Gives: `relations` (which layers and functions are each other's forms), `pairs` (the parts of two graphs that belong
together), `weights`, `loggers`, `kinds` (what a node takes and gives), `errors` (how far two results are apart),
`passes` (graphs with loggers, and graphs with shadows), `comparing` (whole models), `candidates` and `mappings`
(several configurations in one run). Keeps true: loggers and shadows change no result.
"""
