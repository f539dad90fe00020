"""Pipelines of one process, as PyTorch 1.8 had them; `pipelining` runs stages in several."""
