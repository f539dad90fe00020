"""The head of a generated function that takes what another function takes, by position and by keyword.

Takes: names of the arguments, and how they are nested. Gives: `CallCodeGen`.
Keeps true: the graph sees the leaves, in the order of the structure that was traced.
"""

from __future__ import annotations

from facula.fx.codegen import PyTreeCodeGen

__all__ = ["CallCodeGen"]


class CallCodeGen(PyTreeCodeGen):
    """A function of the exported one's arguments, positional and by keyword."""

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The head, the types of the leaves, and a statement that flattens."""
        arguments = ["self", *self.pytree_info.orig_args]
        head = f"def {self._func_name}({', '.join(arguments)}){maybe_return_annotation}:"
        leaves = [v for v in free_vars if v != "self"]
        if not leaves:
            return head
        typed = [f"{v}; " for v in leaves if ":" in v]
        if typed:
            head += f"\n    {''.join(typed)}\n"
        names = [v.partition(":")[0].partition(" =")[0].strip() for v in leaves]
        positional, named = self.pytree_info.in_spec.children_specs
        count = positional.num_children
        pairs = zip(named.context, arguments[1 + count :], strict=True)
        given = f"[{', '.join(arguments[1 : 1 + count])}], {{{','.join(f'{k!r}:{v}' for k, v in pairs)}}}"
        return f"{head}\n    {', '.join(names)}, = fx_pytree.tree_flatten_spec(({given}), self._in_spec)"
