"""Guards of several sizes as checks of the program itself: `prefer_deferred_runtime_asserts_over_guards`.

Takes: a traced graph and the environment of its symbols. Gives: calls of `_assert_scalar` behind the inputs, and the
guards that remain outside of the graph.
Keeps true: what says something of one size by itself stays a guard, since it is a range of that size.
"""

from __future__ import annotations

from typing import Any

from facula.capture import config
from facula.export.ranges import is_linear
from facula.fx.shape_env import ShapeEnv, ShapeGuard, write_guards
from facula.fx.symbols import Atom, Expr
from facula.ops.table.overloads import overload_of
from facula.ops.table.registry import TABLE

_ASSERT = overload_of(TABLE["_assert_scalar"])


def write_deferred(graph: Any, env: ShapeEnv) -> None:
    """Move the guards of an environment that relate sizes into the graph, unless the settings leave them outside."""
    if config.do_not_emit_runtime_asserts:
        return
    moved = [g for g in env.guards if _relates(g)]
    env.guards[:] = [g for g in env.guards if not _relates(g)]
    write_guards(graph, env, moved, _ASSERT, _text)


def write_again(module: Any, graph: Any, env: ShapeEnv) -> None:
    """Enter into a new graph of a program the checks of sizes that the one before has."""
    said: dict[ShapeGuard, str] = {}
    for node in module.graph.find_nodes(op="call_function", target=_ASSERT):
        value = getattr(node.args[0], "meta", {}).get("val")
        condition = getattr(value, "condition", None)
        if condition and isinstance(condition[0], Expr) and env.backed(condition):
            text = str(node.args[1]).partition(" on node ")[0]
            said[ShapeGuard(*condition)] = text.partition("expression ")[2]
    write_guards(graph, env, list(said), _ASSERT, said.__getitem__)


def _relates(guard: ShapeGuard) -> bool:
    difference = guard.left - guard.right
    return len(difference.free_symbols) > 1 or not is_linear(difference)


def _text(guard: ShapeGuard) -> str:
    """A guard in the words of PyTorch's algebra: `Eq(Mod(s0, s1 - 1), 0)`."""
    left, right = _spelled(guard.left), _spelled(guard.right)
    if guard.relation in ("==", "!="):
        return f"{'Eq' if guard.relation == '==' else 'Ne'}({left}, {right})"
    return f"{left} {guard.relation} {right}"


def _spelled(expr: Expr) -> str:
    """Sums with symbols in front of the number, as `4*s0 - 4`."""
    terms = sorted(expr.terms.items(), key=lambda term: (not term[0], term[1] < 0, str(term[0])))
    text = ""
    for monomial, factor in terms:
        parts = sorted(_power(atom, power) for atom, power in monomial)
        if abs(factor) != 1 or not parts:
            parts.insert(0, str(abs(factor)))
        sign = "-" if factor < 0 else "+"
        text += f" {sign} " if text else ("-" if factor < 0 else "")
        text += "*".join(parts)
    return text or "0"


def _power(atom: Atom, power: int) -> str:
    if atom.op == "symbol":
        base = str(atom.args[0])
    else:
        args = [_spelled(x) for x in atom.args]
        names = {"mod": "Mod", "max": "Max", "min": "Min"}
        found = names.get(atom.op)
        base = f"{found}({', '.join(args)})" if found else f"(({args[0]})//({args[1]}))"
    return base if power == 1 else f"{base}**{power}"
