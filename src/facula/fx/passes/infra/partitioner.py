"""Grouping the nodes that a backend takes into few parts.

Takes a graph module and an `OperatorSupport`.  Gives partitions, and a module in which each is a
submodule.
Keeps true: every supported node is in one partition; no partition needs its own result by way of
nodes outside of it, so each can be run as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from facula.fx.graph_module import GraphModule
from facula.fx.node import Node
from facula.fx.passes.operator_support import OperatorSupportBase
from facula.fx.passes.utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]


class Partition:
    """A group of nodes."""

    def __init__(self, id: int | None = None, nodes: Iterable[Node] | None = None) -> None:
        self.id = id
        self.nodes: dict[Node, int | None] = dict.fromkeys(nodes or ())

    def add_node(self, node: Node) -> None:
        """Put a node in."""
        self.nodes[node] = None

    def remove_node(self, node: Node) -> None:
        """Take a node out."""
        del self.nodes[node]

    def size(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)

    def __repr__(self) -> str:
        return str(list(self.nodes))


class CapabilityBasedPartitioner:
    """Groups supported nodes, as many together as their order allows."""

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        """Prepare.

        Args:
            graph_module: the graph.
            operator_support: says which nodes are taken.
            allows_single_node_partition: keep partitions of one node.
            non_compute_ops: names of functions that do not count for this.
            allowed_single_node_partition_ops: names of functions that may be alone all the same.
            skip_horizontal_fusion: group only nodes that use each other.
        """
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = list(non_compute_ops or ())
        self.allowed_single_node_partition_ops = list(allowed_single_node_partition_ops or ())
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node: Node) -> bool:
        modules: Mapping[str, Any] = dict(self.graph_module.named_modules())
        return self.operator_support.is_node_supported(modules, node)

    def propose_partitions(self) -> list[Partition]:
        """The partitions, in the order of their first nodes."""
        modules = dict(self.graph_module.named_modules())
        groups: list[Partition] = []
        owner: dict[Node, Partition] = {}
        #: node -> the partitions that it needs, itself included
        needs: dict[Node, set[Partition]] = {}
        for node in self.graph_module.graph.nodes:
            above: set[Partition] = set()
            for used in node._input_nodes:
                above |= needs[used]
            calls = node.op in ("call_function", "call_method", "call_module", "get_attr")
            if calls and self.operator_support.is_node_supported(modules, node):
                group = self._group_for(node, groups, owner, needs)
                if group is None:
                    group = Partition(len(groups))
                    groups.append(group)
                group.add_node(node)
                owner[node] = group
                above = above | {group}
            needs[node] = above
        return [g for g in groups if self._is_worth_it(g)]

    def _group_for(
        self,
        node: Node,
        groups: list[Partition],
        owner: dict[Node, Partition],
        needs: dict[Node, set[Partition]],
    ) -> Partition | None:
        """A partition that may take the node: what the node needs from outside does not need it."""
        direct = [owner[used] for used in node._input_nodes if used in owner]
        options = direct if self.skip_horizontal_fusion else [*direct, *reversed(groups)]
        for group in dict.fromkeys(options):
            outside = [used for used in node._input_nodes if owner.get(used) is not group]
            if all(group not in needs[used] for used in outside) and not any(
                self._leads_to(used, group, owner, needs) for used in outside
            ):
                return group
        return None

    def _leads_to(
        self,
        used: Node,
        group: Partition,
        owner: dict[Node, Partition],
        needs: dict[Node, set[Partition]],
    ) -> bool:
        """Whether a partition that `used` needs itself needs `group`."""
        seen: set[Partition] = set()
        waiting = list(needs[used])
        while waiting:
            other = waiting.pop()
            if other is group:
                return True
            if other not in seen:
                seen.add(other)
                for n in other.nodes:
                    for u in n._input_nodes:
                        waiting.extend(needs[u] - seen - {other})
        return False

    def _is_worth_it(self, group: Partition) -> bool:
        if self.allows_single_node_partition:
            return True
        counted = 0
        for node in group.nodes:
            name = node._pretty_print_target(node.target)
            if node.op == "call_function" and name in self.allowed_single_node_partition_ops:
                return True
            if node.op != "get_attr" and name not in self.non_compute_ops:
                counted += 1
        return counted > 1

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """The module with a submodule for each partition."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Take nodes that do not count off the borders of partitions."""
        for partition in partitions:
            changed = True
            while changed:
                changed = False
                for node in list(partition.nodes):
                    if node._pretty_print_target(node.target) not in self.non_compute_ops:
                        continue
                    first = not any(u in partition.nodes for u in node._input_nodes)
                    last = not any(u in partition.nodes for u in node.users)
                    if first or last:
                        partition.remove_node(node)
                        changed = True

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """`propose_partitions`, then `fuse_partitions`."""
        return self.fuse_partitions(self.propose_partitions(), prefix)
