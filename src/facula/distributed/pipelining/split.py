"""A module cut into the stages of a pipeline.

Takes: a module, an example micro-batch, and before or behind which submodules to cut. Gives: `Pipe`.
Keeps true: the stages one behind the other compute what the module does; each takes what the one before
gives, or it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from facula import nn
from facula.core.errors import fail
from facula.distributed.pipelining.stage import PipelineStage
from facula.fx import GraphModule, Tracer
from facula.fx.passes.split_module import split_module

#: the tracer at work, where a forward calls `pipe_split`
_TRACING: list[Tracer] = []


def pipe_split() -> None:
    """Cut here: called in a forward, between what two stages compute. Elsewhere it does nothing."""
    if _TRACING:
        _TRACING[-1].create_node("call_function", pipe_split, (), {})


@dataclass
class PipeInfo:
    """What a pipeline is: its graph, and how many stages it has."""

    graph: Any
    num_stages: int
    has_loss_and_backward: bool


class SplitPoint(Enum):
    """On which side of a submodule to cut."""

    BEGINNING = 1
    END = 2


class _Tracer(Tracer):
    """Keeps submodules whole that are cut points, and framework's ones."""

    def __init__(self, whole: set[str]) -> None:
        super().__init__()
        self.whole = whole

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a submodule is one node."""
        inside = any(name.startswith(module_qualified_name + ".") for name in self.whole)
        return not inside and (
            module_qualified_name in self.whole or super().is_leaf_module(m, module_qualified_name)
        )


class Pipe:
    """The stages of a module."""

    def __init__(self, split: GraphModule, stages: list[nn.Module]) -> None:
        self.split_gm, self.stages = split, stages
        self.num_stages = len(stages)

    def get_stage_module(self, stage_idx: int) -> nn.Module:
        """A stage as a module."""
        if not 0 <= stage_idx < self.num_stages:
            fail(
                ValueError,
                "Pipe",
                f"a stage in [0, {self.num_stages}) was required",
                stage_idx,
                hint="stages count from 0",
            )
        return self.stages[stage_idx]

    def info(self) -> PipeInfo:
        """What this pipeline is."""
        return PipeInfo(self.split_gm.graph, self.num_stages, False)

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> PipelineStage:
        """A stage for this rank."""
        module = self.get_stage_module(stage_index)
        return PipelineStage(module, stage_index, self.num_stages, device, group=group)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The whole module's result, in this process."""
        return self.split_gm(*args, **kwargs)


def pipeline(
    module: nn.Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Any = None,
) -> Pipe:
    """Cut a module.

    Args:
        mb_args, mb_kwargs: an example micro-batch; the stages are run on it once.
        split_spec: submodule -> the side on which to cut.
        split_policy: a function of the traced module that gives it with calls of `pipe_split` where to cut.

    A forward may call `pipe_split()` itself, too.
    """
    spec = split_spec or {}
    for name in spec:
        module.get_submodule(name)  # raises where there is none
    traced = _traced(module, set(spec))
    if split_policy is not None:
        traced = split_policy(traced)
    stage_of: dict[Any, int] = {}
    current = 0
    for node in list(traced.graph.nodes):
        if node.op == "call_function" and node.target is pipe_split:
            current += 1
            traced.graph.erase_node(node)
            continue
        side = spec.get(str(node.target)) if node.op == "call_module" else None
        if side is SplitPoint.BEGINNING:
            current += 1
        stage_of[node] = current
        if side is SplitPoint.END:
            current += 1
    split = split_module(traced, module, stage_of.__getitem__)
    stages = [m for name, m in split.named_children() if name.startswith("submod_")]
    _check_chain(split)
    split(*mb_args, **(mb_kwargs or {}))
    return Pipe(split, stages)


def _traced(module: nn.Module, whole: set[str]) -> GraphModule:
    tracer = _Tracer(whole)
    _TRACING.append(tracer)
    try:
        return GraphModule(module, tracer.trace(module))
    finally:
        _TRACING.pop()


def _check_chain(split: GraphModule) -> None:
    """Raise unless each stage reads the one before it only."""
    before: Any = None
    for node in split.graph.nodes:
        if node.op != "call_module":
            continue
        for read in node.all_input_nodes:
            source = read.args[0] if read.op == "call_function" else read
            if before is not None and source is not before:
                fail(
                    NotImplementedError,
                    "pipeline",
                    "stages that read the stage before them only were required",
                    f"{node.target} reads {source}",
                    "cut where one value passes, or hand the other value through",
                )
        before = node
