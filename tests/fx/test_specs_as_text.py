"""Specs of trees as JSON, in the form that PyTorch writes."""

import json
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

from facula.utils import _pytree as pytree

Point = namedtuple("Point", "x y")  # noqa: PYI024
LEAF = {"type": None, "context": None, "children_spec": []}

TREES = [
    {"a": [1, (2, 3)], "b": None},
    OrderedDict(b=1, a=2),
    deque([1, 2], maxlen=3),
    defaultdict(int, {"a": [1]}),
    {1: 2, (3, 4): 5},
    7,
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_they_come_back(tree):
    spec = pytree.tree_structure(tree)
    again = pytree.treespec_loads(pytree.treespec_dumps(spec))
    assert again == spec
    leaves = pytree.tree_leaves(tree)
    assert pytree.tree_unflatten(leaves, again) == tree


def test_the_form():
    spec = pytree.tree_structure({"a": [1]})
    inner = {"type": "builtins.list", "context": "null", "children_spec": [LEAF]}
    whole = {"type": "builtins.dict", "context": '["a"]', "children_spec": [inner]}
    assert json.loads(pytree.treespec_dumps(spec)) == [1, whole]
    factory = {
        "default_factory_module": "builtins",
        "default_factory_name": "int",
        "dict_context": ["a"],
    }
    text = pytree.treespec_dumps(pytree.tree_structure(defaultdict(int, {"a": 1})))
    assert json.loads(text)[1]["context"] == factory


def test_classes_of_programs():
    class Pair:
        def __init__(self, a):
            self.a = a

    def taken(p):
        return [p.a], "k"

    pytree.register_pytree_node(Pair, taken, lambda c, _: Pair(*c))
    with pytest.raises(NotImplementedError, match="No registered serialization name"):
        pytree.treespec_dumps(pytree.tree_structure(Pair(1)))
    pytree._deregister_pytree_node(Pair)
    pytree.register_pytree_node(Pair, taken, lambda c, _: Pair(*c), serialized_type_name="own.Pair")
    spec = pytree.tree_structure(Pair(1))
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    pytree._deregister_pytree_node(Pair)
    with pytest.raises(NotImplementedError, match=r"Deserializing own\.Pair"):
        pytree.treespec_loads(
            json.dumps([1, {"type": "own.Pair", "context": "null", "children_spec": []}])
        )
    point = pytree.tree_structure(Point(1, 2))
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        pytree.treespec_dumps(point)
    pytree._register_namedtuple(Point, serialized_type_name="own.Point")
    assert pytree.treespec_loads(pytree.treespec_dumps(point)) == point


def test_what_is_refused():
    for text in ("", "{}", "[1]", '[1, {"type": "builtins.list"}]', "[1, 5]"):
        with pytest.raises(ValueError, match="treespec_loads"):
            pytree.treespec_loads(text)
    with pytest.raises(ValueError, match="Unknown protocol 2"):
        pytree.treespec_loads("[2, {}]")
    with pytest.raises(TypeError, match="Expected `treespec`"):
        pytree.treespec_dumps([1])
    harmful = {"default_factory_module": "os", "default_factory_name": "system", "dict_context": []}
    text = json.dumps(
        [1, {"type": "collections.defaultdict", "context": harmful, "children_spec": []}]
    )
    with pytest.raises(NotImplementedError, match="a class of a loaded module"):
        pytree.treespec_loads(text)
