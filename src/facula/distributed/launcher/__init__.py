"""Jobs that a program starts itself: `LaunchConfig`, `elastic_launch`."""

from __future__ import annotations

from facula.distributed.launcher.api import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]
