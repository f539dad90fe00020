"""What the compiler says while it works: components with levels, and artifacts that are on or off.

Takes the setting FACULA_LOGS (TORCH_LOGS is understood too): names joined by commas, `+name` for
DEBUG, `-name` for ERROR, a bare component for INFO, a bare artifact to switch it on; `set_logs` does
the same from Python. Gives `get_logger(component)` and `artifact(name)`, both Python loggers.
Keeps true: nothing is printed unless asked for; an unknown name is an error that lists the known
ones; every logger is a child of `facula`, so that an application may route them itself.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from facula.core.errors import fail

__all__ = ["ARTIFACTS", "COMPONENTS", "artifact", "get_logger", "is_on", "set_logs"]

#: component -> the name of its logger
COMPONENTS = {
    "dynamo": "facula._dynamo",
    "aot": "facula._aot",
    "inductor": "facula._inductor",
    "distributed": "facula.distributed",
    "export": "facula.export",
    "dynamic": "facula._dynamic",
}

#: artifact -> what it prints
ARTIFACTS = {
    "graph": "captured graphs, as tables",
    "graph_code": "captured graphs, as Python",
    "graph_sizes": "captured graphs with the sizes of their values",
    "graph_breaks": "where capture was interrupted, why, and what to write instead",
    "guards": "what is checked before a compiled graph is used",
    "verbose_guards": "guards with the lines that caused them",
    "recompiles": "which guard failed when something was compiled again",
    "recompiles_verbose": "all guards that failed, of all entries",
    "bytecode": "the instructions that are interpreted",
    "trace_source": "the user's lines while they are interpreted",
    "trace_call": "the calls that are interpreted",
    "aot_graphs": "flat forward and backward graphs",
    "aot_joint_graph": "the joint graph before it is partitioned",
    "fusion": "what was fused with what, and what was not",
    "schedule": "the order of the loops",
    "output_code": "the generated code",
    "kernel_code": "the generated kernels",
    "perf_hints": "what would make the program faster",
}

_OFF = logging.CRITICAL + 10


class _Handler(logging.StreamHandler):
    """Writes to the present `sys.stderr`, one prefix a record."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter("[%(levelname)s %(name)s] %(message)s"))

    @property
    def stream(self) -> Any:
        return sys.stderr


_handler = _Handler()
_artifacts_on: set[str] = set()
_configured = [False]


def _artifact_logger(name: str) -> logging.Logger:
    return logging.getLogger(f"facula.artifact.{name}")


def _loggers() -> list[logging.Logger]:
    components = [logging.getLogger(name) for name in COMPONENTS.values()]
    return components + [_artifact_logger(name) for name in ARTIFACTS]


def _clear() -> None:
    _artifacts_on.clear()
    for logger in _loggers():
        logger.removeHandler(_handler)
        logger.setLevel(logging.WARNING if logger.name in COMPONENTS.values() else _OFF)
        logger.propagate = logger.name in COMPONENTS.values()


def _switch(logger: logging.Logger, level: int) -> None:
    logger.setLevel(level)
    logger.addHandler(_handler)
    logger.propagate = False


def _apply(name: str, value: Any) -> None:
    """One name with True, False or a level."""
    if name == "all":
        for component in COMPONENTS:
            _apply(component, value)
    elif name in COMPONENTS:
        level = logging.DEBUG if value is True else logging.WARNING if not value else int(value)
        _switch(logging.getLogger(COMPONENTS[name]), level)
    elif name in ARTIFACTS:
        logger = _artifact_logger(name)
        if value:
            _artifacts_on.add(name)
            _switch(logger, logging.DEBUG)
        else:
            _artifacts_on.discard(name)
            logger.setLevel(_OFF)
    else:
        fail(
            ValueError,
            "set_logs",
            f"a log setting of {', '.join(('all', *COMPONENTS, *ARTIFACTS))} was required",
            repr(name),
            "put + or - before a component for more or less",
        )


def _parse(text: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        sign, name = (item[0], item[1:]) if item[0] in "+-" else ("", item)
        if name in ARTIFACTS:
            settings[name] = sign != "-"
        else:
            settings[name] = {"+": logging.DEBUG, "-": logging.ERROR, "": logging.INFO}[sign]
    return settings


def configure() -> None:
    """Read the environment, once."""
    if _configured[0]:
        return
    _configured[0] = True
    _clear()
    text = os.environ.get("FACULA_LOGS") or os.environ.get("TORCH_LOGS") or ""
    for name, value in _parse(text).items():
        _apply(name, value)


def set_logs(
    *, all: int | None = None, modules: dict[str, Any] | None = None, **settings: object
) -> None:
    """Choose what is printed: components by level, artifacts by bool. Without arguments: nothing.

    >>> set_logs(dynamo=logging.DEBUG, graph_breaks=True)
    """
    _configured[0] = True
    _clear()
    if all is not None:
        _apply("all", all)
    for name, level in (modules or {}).items():
        logging.getLogger(name).setLevel(level)
    for name, value in settings.items():
        _apply(name, value)


def get_logger(component: str) -> logging.Logger:
    """The logger of a component: `get_logger("inductor").debug(...)`."""
    configure()
    if component not in COMPONENTS:
        fail(
            KeyError,
            "get_logger",
            f"one of {', '.join(COMPONENTS)} was required",
            repr(component),
            hint="a component is the name of a package of facula",
        )
    return logging.getLogger(COMPONENTS[component])


def artifact(name: str) -> logging.Logger:
    """The logger of an artifact; `artifact(name).debug(text)` prints where it was asked for."""
    configure()
    if name not in ARTIFACTS:
        fail(
            KeyError,
            "artifact",
            f"one of {', '.join(ARTIFACTS)} was required",
            repr(name),
            hint="an artifact is what one stage of the compiler makes",
        )
    return _artifact_logger(name)


def is_on(name: str) -> bool:
    """Whether an artifact is printed; ask before making a long text."""
    configure()
    return name in _artifacts_on
