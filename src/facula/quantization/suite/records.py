"""What loggers have kept, as tables.

Takes: models with loggers, scripted or not. Gives: records of results. Keeps true: records of a layer come in the
order of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula.nn as nn
from facula.quantization.suite.kinds import Results

__all__: list[str] = []


def _is_logger(module: Any, logger_cls: Any) -> bool:
    """Whether a module is a logger, or what scripting made of one."""
    scripted = getattr(module, "original_name", None)
    return (
        isinstance(module, logger_cls) or scripted is not None and scripted == logger_cls.__name__
    )


def _extract_logger_info_one_model(
    model: nn.Module, results: Results, logger_cls: Callable[..., Any]
) -> None:
    """Put what the loggers of a model have kept into a table."""
    for _, module in model.named_modules():
        logger: Any = module
        if not _is_logger(logger, logger_cls):
            continue
        by_model = results.setdefault(logger.ref_name, {}).setdefault(logger.results_type, {})
        entries = by_model.setdefault(logger.model_name, [])
        entries.append(
            {
                "type": logger.results_type,
                "values": list(logger.stats_rnn or logger.stats),
                "ref_node_name": logger.ref_node_name,
                "ref_node_target_type": logger.ref_node_target_type,
                "prev_node_name": logger.prev_node_name,
                "prev_node_target_type": logger.prev_node_target_type,
                "index_within_arg": logger.index_within_arg,
                "index_of_arg": logger.index_of_arg,
                "fqn": logger.fqn,
                "qconfig_str": logger.qconfig_str,
                "comparisons": list(getattr(logger, "comparisons", ())),
                "comparison_fn_name": getattr(logger, "comparison_fn_name", ""),
            }
        )
        entries.sort(key=lambda entry: (entry["index_of_arg"], entry["index_within_arg"]))
