"""Logs of the compiler, under PyTorch's name."""

from facula.core.logs import artifact, get_logger, set_logs
