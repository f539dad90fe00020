"""The parts of a graph that recorded CUDA graphs can run.

Takes: a graph module and inputs. Gives: `partition_cudagraphs`, the module with those parts as submodules.
Keeps true: what it computes; a part computes on CUDA devices alone.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from facula import core, nn
from facula.fx import _pytree as pytree
from facula.fx.fake_tensor import FakeTensorMode
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node
from facula.fx.passes.fake_tensor_prop import FakeTensorProp
from facula.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from facula.fx.passes.operator_support import OperatorSupport
from facula.fx.passes.tools_common import CALLABLE_NODE_OPS

__all__ = ["CudaGraphsSupport", "partition_cudagraphs"]


class CudaGraphsSupport(OperatorSupport):
    """Takes nodes all of whose tensors are on CUDA devices, as `meta["val"]` says.

    >>> from facula.fx.passes.backends.cudagraphs import CudaGraphsSupport
    >>> node = list(facula.fx.symbolic_trace(lambda x: x.sin()).graph.nodes)[1]
    >>> node.meta["val"] = facula.ones(1)
    >>> CudaGraphsSupport().is_node_supported({}, node)
    False
    """

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        """Whether a node computes on CUDA devices alone.

        Args:
            submodules: not looked at.
            node: the node.
        """
        if node.op not in CALLABLE_NODE_OPS:
            return False
        if node.target is operator.getitem:
            return True
        values = [node.meta.get("val"), *[each.meta.get("val") for each in node.all_input_nodes]]
        tensors = [each for each in pytree.tree_leaves(values) if isinstance(each, core.Tensor)]
        return all(tensor.device.type == "cuda" for tensor in tensors)


def partition_cudagraphs(gm: GraphModule, inputs: Sequence[object]) -> GraphModule:
    """Puts what can run as CUDA graphs into submodules.

    Args:
        gm: the module, which is changed.
        inputs: what it takes.

    >>> from facula.fx.passes.backends.cudagraphs import partition_cudagraphs
    >>> traced = facula.fx.symbolic_trace(lambda x: x.sin())
    >>> list(partition_cudagraphs(traced, [facula.ones(2)]).named_children())
    []
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    FakeTensorProp(gm, mode).propagate(*inputs)
    partitioner = CapabilityBasedPartitioner(
        gm, CudaGraphsSupport(), allows_single_node_partition=True
    )
    return partitioner.fuse_partitions(partitioner.propose_partitions())
