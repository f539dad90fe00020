"""Parts of `aot_autograd`, under PyTorch's names."""
