"""Quantization: tensors of integers that stand for numbers, and models that compute with them.

Gives: `tensor` and `create` (quantized tensors), `rules` (what operators do with them), `kernels` (products of
integers), and above them observers, modules and the workflows; `ao` and `nn` have PyTorch's names for all of it.
Keeps true: nothing is imported here, so that `import facula` takes no longer for it.
"""
