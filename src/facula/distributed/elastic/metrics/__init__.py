"""Numbers that a program tells: how often, how long.

Takes: values under names. Gives: `put_metric`, `prof`, and handlers that values go to.
Keeps true: nothing is kept or shown where no handler was chosen.
"""

from __future__ import annotations

from facula.distributed.elastic.metrics.api import (
    ConsoleMetricHandler,
    MetricData,
    MetricHandler,
    MetricsConfig,
    MetricStream,
    NullMetricHandler,
    configure,
    get_elapsed_time_ms,
    getStream,
    prof,
    profile,
    publish_metric,
    put_metric,
)

__all__ = [
    "ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig", "NullMetricHandler",
    "configure", "getStream", "get_elapsed_time_ms", "initialize_metrics", "prof", "profile", "publish_metric",
    "put_metric",
]  # fmt: skip


def initialize_metrics(cfg: MetricsConfig | None = None) -> None:
    """Called by launchers before workers start: a package that replaces this module chooses its handlers here."""
