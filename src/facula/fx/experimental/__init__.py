"""`facula.fx.experimental`: tracing of operators, symbolic sizes, passes for inference.

Thin modules are imported when they are first asked for.
"""

from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute


def __getattr__(name: str) -> Any:
    if name in ("_config", "optimization", "proxy_tensor", "symbolic_shapes"):
        return import_module(f"{__name__}.{name}")
    raise no_attribute(__name__, name)
