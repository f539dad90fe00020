"""A backward pass in two halves: gradients of inputs at once, those of weights later.

Takes: the results of a part of a model, their gradients, its inputs and weights. Gives: `InputBackward`.
Keeps true: both halves together add what one backward pass adds; no weight's gradient is computed twice.

A node of the backward graph that leads to an input, and has a branch that leads to weights alone, is a fork. The first
half keeps what comes to the forks; the second one goes on from there into the branches. A weight behind several
forks would be reached twice from the first of them, so its gradient belongs to the first half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import autograd, core
from facula.autograd.graph import GradientEdge

__all__ = ["InputBackward"]


class _Graph:
    """What the nodes behind some results lead to."""

    def __init__(self, results: Sequence[Any], inputs: Sequence[Any]) -> None:
        self.sources = {id(_node(x)) for x in inputs}
        self.order: list[Any] = []
        seen: set[Any] = set()
        stack = [(t.grad_fn, False) for t in results if t.grad_fn is not None]
        while stack:
            node, left = stack.pop()
            if left:
                self.order.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                if id(node) not in self.sources:
                    stack += [(n, False) for n, _ in node.next_functions if n is not None]
        #: whether a node leads to an input
        self.leads: dict[Any, bool] = {}
        #: the weights behind a node that does not
        self.weights: dict[Any, frozenset[int]] = {}
        self.by_id: dict[int, Any] = {}
        for node in self.order:
            self._visit(node)

    def _visit(self, node: Any) -> None:
        if id(node) in self.sources:
            self.leads[node], self.weights[node] = True, frozenset()
            return
        after = [n for n, _ in node.next_functions if n is not None]
        self.leads[node] = any(self.leads[n] for n in after)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            self.by_id[id(leaf)] = leaf
            self.weights[node] = frozenset([id(leaf)])
            return
        behind: frozenset[int] = frozenset()
        for inner in after:
            if not self.leads[inner]:
                behind |= self.weights[inner]
        self.weights[node] = behind

    def forks(self) -> dict[Any, frozenset[int]]:
        """The nodes that lead to inputs and, by another branch, to weights: these."""
        return {n: self.weights[n] for n in self.order if self.leads[n] and self.weights[n]}


def _node(tensor: Any) -> Any:
    return (
        tensor.grad_fn
        if tensor.grad_fn is not None
        else autograd.graph.get_gradient_edge(tensor).node
    )


class InputBackward:
    """The first half: gradients of inputs; `weights` is the second one."""

    def __init__(
        self,
        results: Sequence[Any],
        gradients: Sequence[Any],
        inputs: Sequence[Any],
        trained: set[int],
    ) -> None:
        """Compute the gradients of inputs.

        Args:
            results: what was computed; a part of them may need no gradient.
            inputs: what requires a gradient.
            trained: the ids of the weights that get gradients.
        """
        graph = _Graph(results, inputs)
        forks = graph.forks()
        count: dict[int, int] = {}
        for behind in forks.values():
            for number in behind:
                count[number] = count.get(number, 0) + 1
        apart = frozenset().union(
            *(graph.weights[n] for n in _roots(results) if not graph.leads[n])
        )
        early = {n for n, times in count.items() if times > 1 or n in apart} | (apart - set(count))
        self.by_id = graph.by_id
        self.later = {
            node: [n for n in behind if n not in early and n in trained]
            for node, behind in forks.items()
        }
        self.kept: dict[Any, tuple[Any, ...]] = {}
        self.early = [graph.by_id[n] for n in early if n in trained]
        self.inputs = self._run(results, gradients, inputs)

    def _run(
        self, results: Sequence[Any], gradients: Sequence[Any], inputs: Sequence[Any]
    ) -> list[Any]:
        handles = []
        for node, wanted in self.later.items():
            if wanted:
                handles.append(node.register_prehook(self._keeper(node)))
        try:
            found = autograd.grad(
                list(results), [*inputs, *self.early], list(gradients), retain_graph=True, allow_unused=True
            )  # fmt: skip
        finally:
            for handle in handles:
                handle.remove()
        recording = core.set_grad_enabled(False)
        try:
            for weight, gradient in zip(self.early, found[len(inputs) :], strict=True):
                if gradient is not None:
                    weight.grad = gradient if weight.grad is None else weight.grad + gradient
        finally:
            core.set_grad_enabled(recording)
        return list(found[: len(inputs)])

    def _keeper(self, node: Any) -> Any:
        def keep(gradients: tuple[Any, ...]) -> None:
            self.kept[node] = gradients

        return keep

    def weights(self) -> None:
        """Add the gradients of the weights."""
        for node, gradients in self.kept.items():
            pairs = [(GradientEdge(node, i), g) for i, g in enumerate(gradients) if g is not None]
            wanted = [self.by_id[n] for n in self.later[node]]
            if pairs:
                autograd.backward(
                    [edge for edge, _ in pairs],
                    [g for _, g in pairs],
                    retain_graph=True,
                    inputs=wanted,
                )
        self.kept.clear()
        self.later.clear()


def _roots(results: Sequence[Any]) -> list[Any]:
    return [t.grad_fn for t in results if t.grad_fn is not None]
