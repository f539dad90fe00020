"""What goes wrong when a package is made.

Takes the graph of modules. Gives `PackagingError`, whose text has a paragraph for each reason, and `EmptyMatchError`.
"""

from __future__ import annotations

from enum import Enum

from ._digraph import DiGraph

__all__ = ["EmptyMatchError", "PackagingError", "PackagingErrorReason"]


class EmptyMatchError(Exception):
    """A pattern with `allow_empty=False` matched no module."""


class PackagingErrorReason(Enum):
    """Why a module cannot be packaged."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}>"

    IS_EXTENSION_MODULE = (
        "Module is a C extension module. torch.package supports Python modules only."
    )
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, but we could not find it in your filesystem."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
    DENIED = "Module was denied by a pattern."
    MOCKED_BUT_STILL_USED = (
        "Module was mocked out, but is still being used in the package. Please intern or extern the mocked "
        "modules if objects are supposed to be in the package."
    )


class PackagingError(Exception):
    """Modules that a package needs cannot be in it.

    The text names them by reason; with `debug=True` it also says who needs each.
    """

    def __init__(self, dependency_graph: DiGraph, debug: bool = False) -> None:
        self.dependency_graph = dependency_graph
        broken: dict[PackagingErrorReason, list[str]] = {}
        for name, attributes in dependency_graph.nodes.items():
            if attributes.get("error") is not None:
                broken.setdefault(attributes["error"], []).append(name)
        super().__init__(_text(dependency_graph, broken, debug))


def _text(graph: DiGraph, broken: dict[PackagingErrorReason, list[str]], debug: bool) -> str:
    lines = [""]
    for reason, names in broken.items():
        lines.append(f"* {reason.value}")
        for name in names:
            lines.append(f"    {name}")
            context = graph.nodes[name].get("error_context")
            if context is not None:
                lines.append(f"      Context: {context}")
            if debug:
                lines.append(f"      A path to {name}: " + " -> ".join(graph.first_path(name)))
    if not debug:
        lines += [
            "",
            "Set debug=True when invoking PackageExporter for a visualization of where broken modules "
            "are coming from!",
        ]
    return "\n".join(lines) + "\n"
