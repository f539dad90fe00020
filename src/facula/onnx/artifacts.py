"""What an export leaves besides the model: a report, times, and the exported program.

Takes a folder and what is wanted. Writes files of these names into it.
Keeps true: nothing is written that was not asked for.
"""

from __future__ import annotations

import contextlib
import cProfile
import io
import os
import pstats
from collections import Counter
from collections.abc import Iterator
from typing import Any

from facula.export.archive import save, write_whole


class Artifacts:
    """The files of one export."""

    def __init__(self, folder: Any, report: bool, profile: bool, dump: bool) -> None:
        self.folder = os.fspath(folder)
        self.report, self.profile, self.dump = report, profile, dump
        self._times = ""

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Take times where they are wanted."""
        if not self.profile:
            yield
            return
        with cProfile.Profile() as profile:
            yield
        text = io.StringIO()
        pstats.Stats(profile, stream=text).sort_stats("cumulative").print_stats(40)
        self._times = text.getvalue()

    def write(self, made: Any) -> None:
        """Write what is wanted of an export."""
        if self.dump:
            save(made.exported_program, os.path.join(self.folder, "onnx_export.pt2"))
        if self.report:
            self._write("onnx_export_report.md", _report(made))
        if self.profile:
            self._write("onnx_export_profile.txt", self._times)

    def _write(self, name: str, text: str) -> None:
        write_whole(os.path.join(self.folder, name), text.encode())


def _report(made: Any) -> str:
    """The operators of the program, and the nodes that they became."""
    program, model = made.exported_program, made._skeleton
    operators = Counter(str(n.target) for n in program.graph.nodes if n.op == "call_function")
    nodes = Counter(node.op_type for node in model.graph.node)
    parts = ["# ONNX export\n", "## Operators of the program\n"]
    parts += [f"- {name}: {count}" for name, count in sorted(operators.items())]
    parts += ["\n## Nodes of the model\n"]
    parts += [f"- {name}: {count}" for name, count in sorted(nodes.items())]
    return "\n".join(parts) + "\n"
