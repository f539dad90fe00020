"""Trees of containers."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

from facula.utils import _pytree as pytree

Point = namedtuple("Point", "x y")
TREES = [
    1,
    (),
    [],
    {},
    (1, [2, {"a": 3}]),
    Point(1, (2, 3)),
    OrderedDict([("b", 1), ("a", 2)]),
    defaultdict(list, {"k": [1, 2]}),
    deque([1, 2], maxlen=3),
    {"a": None, "b": (None,)},
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_round_trip(tree):
    leaves, spec = pytree.tree_flatten(tree)
    rebuilt = pytree.tree_unflatten(leaves, spec)
    assert rebuilt == tree and type(rebuilt) is type(tree)
    assert spec == pytree.tree_structure(tree) and spec.num_leaves == len(leaves)
    assert isinstance(hash(spec), int) and spec.num_children == len(spec.children())


def test_map():
    assert pytree.tree_map(lambda x: x * 2, {"a": [1, (2,)]}) == {"a": [2, (4,)]}
    assert pytree.tree_map(lambda a, b: a + b, [1, {"k": 2}], [10, {"k": 20}]) == [11, {"k": 22}]
    assert pytree.tree_map_only(int, lambda x: -x, [1, "a", (2.0, 3)]) == [-1, "a", (2.0, -3)]
    assert pytree.tree_map_only((int, str), str, [1, "a"]) == ["1", "a"]
    assert pytree.tree_map(len, [(1, 2), (3,)], is_leaf=lambda x: isinstance(x, tuple)) == [2, 1]
    seen = []
    tree = [1, (2,)]
    assert pytree.tree_map_(seen.append, tree) is tree and seen == [1, 2]


def test_questions():
    assert pytree.tree_leaves({"a": 1, "b": [2]}) == [1, 2]
    assert pytree.tree_all(lambda x: x > 0, (1, [2])) and not pytree.tree_any(
        lambda x: x > 2, [1, 2]
    )
    assert pytree.tree_all_only(int, lambda x: x > 0, ["a", 1])
    assert not pytree.tree_any_only(str, str.isdigit, ["a", 1])


def test_paths():
    tree = {"a": [1, Point(2, 3)]}
    pairs, spec = pytree.tree_flatten_with_path(tree)
    assert [pytree.keystr(path) for path, _ in pairs] == ["['a'][0]", "['a'][1].x", "['a'][1].y"]
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in pairs)
    named = pytree.tree_map_with_path(lambda path, x: (pytree.keystr(path), x), {"k": 1})
    assert named == {"k": ("['k']", 1)}


class Box:
    def __init__(self, inside, label):
        self.inside, self.label = inside, label


def test_own_containers():
    assert pytree.tree_leaves(Box(1, "a"))[0].label == "a"
    pytree.register_pytree_node(
        Box, lambda b: ([b.inside], b.label), lambda children, label: Box(*children, label)
    )
    doubled = pytree.tree_map(lambda x: x * 2, Box((1, 2), "a"))
    assert doubled.inside == (2, 4) and doubled.label == "a"
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Box, None, None)
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_flatten_with_path(Box(1, "a"))


@pytest.mark.parametrize("other", [(1,), [1], [1, 2, 3], {"a": 1}, 5])
def test_trees_that_do_not_match(other):
    with pytest.raises(ValueError, match="mismatch"):
        pytree.tree_map(lambda a, b: a, [1, (2, 3)], other)


def test_wrong_leaves():
    _, spec = pytree.tree_flatten([1, 2])
    with pytest.raises(ValueError, match="2 leaves"):
        pytree.tree_unflatten([1], spec)
    with pytest.raises(TypeError, match="TreeSpec"):
        pytree.tree_unflatten([1], None)


def test_broadcast():
    spec = pytree.tree_structure([1, (2, 3)])
    assert pytree._broadcast_to_and_flatten([0, 1], spec) == [0, 1, 1]
    assert pytree._broadcast_to_and_flatten(7, spec) == [7, 7, 7]
    assert pytree._broadcast_to_and_flatten([0], spec) is None


def test_dictionaries_of_other_kinds_stand_for_each_other_in_maps_of_several_trees():
    left = {"a": 1, "b": OrderedDict([("d", 2), ("c", 3)])}
    right = OrderedDict([("b", {"c": 30, "d": 20}), ("a", 10)])
    found = pytree.tree_map(lambda u, v: u + v, left, right)
    assert found == {"a": 11, "b": OrderedDict([("d", 22), ("c", 33)])}
    assert type(found["b"]) is OrderedDict
    with pytest.raises(ValueError, match="keys"):
        pytree.tree_map(lambda u, v: u, {"a": 1}, OrderedDict(b=1))
