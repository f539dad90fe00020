"""Symbolic numbers made of nodes, as callers of an environment of symbols make them."""

import pytest

import facula
from facula.fx.experimental.sym_node import SymNode
from facula.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv


def made(env, value, kind=int, **more):
    return SymNode(env.create_symbol(value, source="x", **more), env, kind, hint=value)


def test_numbers_of_nodes_compute_and_note_guards():
    env = ShapeEnv()
    rows = facula.SymInt(made(env, 5))
    assert str(rows * 2 + 1) == "1 + 2*s0" and rows.hint == 5
    assert rows * 2 == 10 and len(env.guards) == 1
    assert env.var_to_val == {"s0": 5}


def test_one_example_may_have_symbols_of_its_own_or_none():
    env = ShapeEnv()
    first, second = made(env, 7), made(env, 7)
    assert first.expr == second.expr
    assert made(env, 7, dynamic_dim=DimDynamic.DYNAMIC).expr != first.expr
    assert made(env, 7, dynamic_dim=DimDynamic.STATIC).maybe_as_int() == 7


def test_kinds_and_constants():
    env = ShapeEnv()
    truth = SymNode(env.create_symbol(True), env, bool, hint=True)
    assert truth.is_bool() and not truth.is_int() and bool(facula.SymBool(truth)) is True
    assert str(facula.SymBool(truth)) == "True"
    half = SymNode(env.create_symbol(3), env, float, hint=3.5)
    assert facula.SymFloat(half) == 3.5 and half.is_float()


def test_a_number_without_an_example_says_so():
    env = ShapeEnv()
    node = SymNode(env.create_unbacked_symint().expr, env, int)
    assert not node.has_hint()
    with pytest.raises(RuntimeError, match="example was required"):
        node.require_hint()
