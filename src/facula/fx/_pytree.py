"""Trees of Python containers: taking the leaves out, and putting others in.

Takes any nesting of registered containers (tuples, lists, dicts, named tuples, ordered and default
dicts, deques, and classes given to `register_pytree_node`); everything else is a leaf. Gives leaves
and a `TreeSpec`, which puts leaves back together.
Keeps true: leaves come in a fixed order (dicts: of insertion); a spec compares equal to another
exactly when both describe the same containers.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

from facula.core.errors import fail

__all__ = [
    "Context", "GetAttrKey", "KeyPath", "LeafSpec", "MappingKey", "PyTree", "SequenceKey", "TreeSpec",
    "key_get", "keystr", "register_constant", "register_pytree_node", "tree_all", "tree_all_only",
    "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path", "tree_iter",
    "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_", "tree_map_only",
    "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten",
    "treespec_dumps", "treespec_loads", "treespec_pprint",
]  # fmt: skip

PyTree = Any
Context = Any
Flatten = Callable[[Any], tuple[list[Any], Context]]
Unflatten = Callable[[Iterable[Any], Context], Any]


class NodeDef(NamedTuple):
    """How one kind of container is taken apart and put together."""

    type: type
    flatten_fn: Flatten
    unflatten_fn: Unflatten
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None


SUPPORTED_NODES: dict[type, NodeDef] = {}
#: container -> its name in files, and what writes and reads its context (`tree_files`)
FILE_FORMS: dict[
    type, tuple[str | None, Callable[[Context], Any] | None, Callable[[Any], Context] | None]
] = {}
CONSTANT_NODES: set[type] = set()


@dataclass(frozen=True)
class SequenceKey:
    """A step of a path: the element at a position."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The element."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A step of a path: the value of a key."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The value."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """A step of a path: an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: object) -> Any:
        """The attribute."""
        return getattr(obj, self.name)


KeyPath = tuple[Any, ...]


def register_pytree_node(
    cls: type,
    flatten_fn: Flatten,
    unflatten_fn: Unflatten,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None = None,
) -> None:
    """Makes a class a container.

    Args:
        cls: the class; its subclasses stay leaves.
        flatten_fn: gives the children and a context that compares equal for equal structure.
        unflatten_fn: takes children and the context.
        serialized_type_name: its name in files; None for its own
        to_dumpable_context, from_dumpable_context: the context as what JSON holds, and back
        flatten_with_keys_fn: like `flatten_fn`, with pairs of a key and a child.

    Raises:
        ValueError: the class is registered.
    """
    if cls in SUPPORTED_NODES:
        fail(
            ValueError,
            "register_pytree_node",
            f"{cls} is already registered as pytree node",
            hint="a class is registered once: leave the second registration out",
        )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    if serialized_type_name is not None or to_dumpable_context is not None:
        FILE_FORMS[cls] = serialized_type_name, to_dumpable_context, from_dumpable_context


def _register_pytree_node(
    cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten, **names: Any
) -> None:
    """`register_pytree_node` of older programs: registering anew replaces."""
    SUPPORTED_NODES.pop(cls, None)
    FILE_FORMS.pop(cls, None)
    register_pytree_node(cls, flatten_fn, unflatten_fn, **names)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Gives a class of named tuples, which are containers anyway, a name in files."""
    FILE_FORMS[cls] = serialized_type_name, None, None


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as text; `tree_files` says how.

    Args:
        treespec: the structure
        protocol: 1, the only one
    """
    # lazily: few programs keep structures in files
    return str(import_module("facula.fx.tree_files").treespec_dumps(treespec, protocol))


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure of a text of `treespec_dumps`.

    Args:
        serialized: the text
    """
    # lazily: few programs keep structures in files
    found: TreeSpec = import_module("facula.fx.tree_files").treespec_loads(serialized)
    return found


def _deregister_pytree_node(cls: type) -> None:
    """Makes a class a leaf again."""
    del SUPPORTED_NODES[cls]
    FILE_FORMS.pop(cls, None)
    CONSTANT_NODES.discard(cls)


def register_constant(cls: type) -> None:
    """Makes a class a container without children, whose object is part of the structure."""
    register_pytree_node(
        cls,
        lambda value: ([], value),
        lambda children, value: value,
        flatten_with_keys_fn=lambda value: ([], value),
    )
    CONSTANT_NODES.add(cls)


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Makes a dataclass a container of its fields.

    Args:
        cls: the class
        field_names: the fields; None for all that its constructor takes
        drop_field_names: fields that are left out, and get their defaults
        serialized_type_name: its name in files; None for its own

    Raises:
        AssertionError: the class is no dataclass.
        ValueError: the fields are not those of the class.
    """
    if not dataclasses.is_dataclass(cls) and field_names is None:
        fail(AssertionError, "export.register_dataclass", "a dataclass was required (Only dataclasses "
             "can be registered with this function)", cls.__name__,
             hint="put @dataclass above the class")  # fmt: skip
    drop = set(drop_field_names or ())
    own = (
        {f.name for f in dataclasses.fields(cls) if f.init}
        if dataclasses.is_dataclass(cls)
        else None
    )
    names = (
        field_names if field_names is not None else [n for n in _init_fields(cls) if n not in drop]
    )
    if own is not None and set(names) | drop != own:
        fail(ValueError, "register_dataclass", f"the fields {sorted(own)} were required of field_names and "
             "drop_field_names", sorted(set(names) | drop), hint="leave field_names out for all fields")  # fmt: skip

    def flatten(value: object) -> tuple[list[Any], Any]:
        return [getattr(value, name) for name in names], tuple(names)

    def unflatten(values: Any, context: Any) -> Any:
        return cls(**dict(zip(context, values, strict=True)))

    def with_keys(value: object) -> tuple[list[tuple[Any, Any]], Any]:
        return [(GetAttrKey(name), getattr(value, name)) for name in names], tuple(names)

    register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        # PyTorch has the names of fields that were None beside the others
        to_dumpable_context=lambda names: json.dumps([list(names), []]),
        from_dumpable_context=lambda text: tuple(json.loads(text)[0]),
        flatten_with_keys_fn=with_keys,
    )


def _init_fields(cls: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init]


def is_constant_class(cls: type) -> bool:
    """Whether a class was given to `register_constant`."""
    return cls in CONSTANT_NODES


def _sequence_with_keys(values: object) -> tuple[list[tuple[Any, Any]], Context]:
    children, context = SUPPORTED_NODES[type(values)].flatten_fn(values)
    return [(SequenceKey(i), child) for i, child in enumerate(children)], context


def _dict_flatten(values: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(values.values()), list(values)


def _dict_flatten_with_keys(values: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Context]:
    children, context = _dict_flatten(values)
    return [(MappingKey(key), child) for key, child in zip(values, children, strict=True)], context


def _dict_unflatten(children: Iterable[Any], keys: Sequence[str]) -> dict[Any, Any]:
    return dict(zip(keys, children, strict=True))


def _defaultdict_flatten(values: defaultdict) -> tuple[list[Any], Context]:
    return list(values.values()), [values.default_factory, list(values)]


def _defaultdict_unflatten(children: Iterable[Any], context: list[Any]) -> Any:
    factory, keys = context
    return defaultdict(factory, zip(keys, children, strict=True))


def _defaultdict_flatten_with_keys(values: Any) -> tuple[list[tuple[Any, Any]], Context]:
    children, context = _defaultdict_flatten(values)
    return [(MappingKey(k), child) for k, child in zip(values, children, strict=True)], context


def _named_with_keys(values: Any) -> tuple[list[tuple[Any, Any]], Context]:
    fields = [GetAttrKey(name) for name in values._fields]
    return list(zip(fields, values, strict=True)), type(values)


_sequence = _sequence_with_keys
register_pytree_node(
    tuple, lambda v: (list(v), None), lambda c, _: tuple(c), flatten_with_keys_fn=_sequence
)
register_pytree_node(
    list, lambda v: (list(v), None), lambda c, _: list(c), flatten_with_keys_fn=_sequence
)
register_pytree_node(
    deque,
    lambda v: (list(v), v.maxlen),
    lambda c, maxlen: deque(c, maxlen=maxlen),
    flatten_with_keys_fn=_sequence,
)
register_pytree_node(
    dict, _dict_flatten, _dict_unflatten, flatten_with_keys_fn=_dict_flatten_with_keys
)
register_pytree_node(
    OrderedDict,
    _dict_flatten,
    lambda c, keys: OrderedDict(zip(keys, c, strict=True)),
    flatten_with_keys_fn=_dict_flatten_with_keys,
)
register_pytree_node(
    defaultdict,
    _defaultdict_flatten,
    _defaultdict_unflatten,
    flatten_with_keys_fn=_defaultdict_flatten_with_keys,
)


class namedtuple:
    """Stands in specs for every class of named tuples."""


#: where the named tuples of operators say that they are
RETURN_TYPES_MODULE = "facula.return_types"

#: how lists are taken apart and put together: classes that are lists are registered with these
_list_flatten = SUPPORTED_NODES[list].flatten_fn
_list_unflatten = SUPPORTED_NODES[list].unflatten_fn
_list_flatten_with_keys = SUPPORTED_NODES[list].flatten_with_keys_fn

_NAMED = NodeDef(
    namedtuple, lambda v: (list(v), type(v)), lambda c, kind: kind(*c), _named_with_keys
)
SUPPORTED_NODES[namedtuple] = _NAMED


def is_namedtuple_instance(value: object) -> bool:
    """Whether something is a tuple with named fields."""
    return isinstance(value, tuple) and isinstance(getattr(type(value), "_fields", None), tuple)


def _node_of(tree: object) -> NodeDef | None:
    found = SUPPORTED_NODES.get(type(tree))
    if found is None and is_namedtuple_instance(tree):
        return _NAMED
    return found


def _get_node_type(tree: object) -> type:
    """The type under which a container is registered; the plain type of anything else."""
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


def is_structseq_instance(value: object) -> bool:
    """Whether something is a result with named fields of an operator (`facula.return_types`)."""
    return is_namedtuple_instance(value) and type(value).__module__ == RETURN_TYPES_MODULE


def tree_is_leaf(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether something is no registered container."""
    return _is_leaf(tree, is_leaf)


def _is_leaf(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or _node_of(tree) is None


#: one stands for another in a tree that is given up to the leaves of a spec
_DICTIONARIES = (dict, OrderedDict, defaultdict)


@dataclass
class TreeSpec:
    """The containers of a tree without its leaves."""

    type: Any
    context: Context
    children_specs: list[TreeSpec] = field(default_factory=list)

    num_children: int = field(init=False, compare=False, repr=False)
    num_leaves: int = field(init=False, compare=False, repr=False)
    num_nodes: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.num_children = len(self.children_specs)
        self.num_leaves = sum(child.num_leaves for child in self.children_specs)
        self.num_nodes = 1 + sum(child.num_nodes for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether the tree is one leaf."""
        return False

    def children(self) -> list[TreeSpec]:
        """The specs of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The spec of one child."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with the given leaves.

        Raises:
            ValueError: there are too few leaves or too many.
        """
        given = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(given) != self.num_leaves:
            fail(
                ValueError,
                "tree_unflatten",
                f"{self.num_leaves} leaves were required",
                len(given),
                hint="flatten the tree again: the spec belongs to one structure",
            )
        return self._build(iter(given))

    def _build(self, leaves: Iterator[Any]) -> Any:
        children = [child._build(leaves) for child in self.children_specs]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: object) -> list[Any]:
        """The parts of a tree at the places of this spec's leaves.

        Raises:
            ValueError: the tree is not made of these containers as far as that.
        """
        parts: list[Any] = []
        self._collect(tree, parts)
        return parts

    def _collect(self, tree: object, parts: list[Any]) -> None:
        node = _node_of(tree)
        alike = node is not None and (
            node.type is self.type or (node.type in _DICTIONARIES and self.type in _DICTIONARIES)
        )
        if node is None or not alike:
            got = type(tree).__name__
            fail(
                ValueError,
                "tree_map",
                f"Node type mismatch: {self.type.__name__} was required",
                got,
                hint="the trees need one structure; convert the container first",
            )
        children, context = node.flatten_fn(tree)
        if self.type in _DICTIONARIES:
            children = self._in_key_order(tree)
        elif context != self.context:
            fail(
                ValueError,
                "tree_map",
                f"Node context mismatch: {self.context!r}",
                repr(context),
                hint="the dictionaries need the same keys",
            )
        if len(children) != self.num_children:
            required = f"Node arity mismatch: {self.num_children} children were required"
            fail(
                ValueError,
                "tree_map",
                required,
                len(children),
                hint="the containers need the same length",
            )
        for child, spec in zip(children, self.children_specs, strict=True):
            spec._collect(child, parts)

    def _in_key_order(self, tree: Any) -> list[Any]:
        keys = self.context[1] if self.type is defaultdict else self.context
        if set(keys) != set(tree):
            fail(
                ValueError,
                "tree_map",
                f"Node keys mismatch: {keys} were required",
                list(tree),
                hint="the dictionaries need the same keys",
            )
        return [tree[key] for key in keys]

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def __repr__(self, indent: int = 0) -> str:
        if not self.children_specs:
            return f"TreeSpec({self.type.__name__}, {self.context!r}, [])"
        inner = [child.__repr__(indent + 2) for child in self.children_specs]
        space = " " * (indent + 2)
        children = f",\n{space}".join(inner)
        return f"TreeSpec({self.type.__name__}, {self.context!r}, [{children}])"


class LeafSpec(TreeSpec):
    """The spec of a lone leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __post_init__(self) -> None:
        self.num_children, self.num_leaves, self.num_nodes = 0, 1, 1

    def is_leaf(self) -> bool:
        """Always True."""
        return True

    def _build(self, leaves: Iterator[Any]) -> Any:
        return next(leaves)

    def _collect(self, tree: object, parts: list[Any]) -> None:
        parts.append(tree)

    def __repr__(self, indent: int = 0) -> str:
        return "*"


_LEAF = LeafSpec()


def treespec_leaf() -> TreeSpec:
    """The spec of a lone leaf."""
    return _LEAF


def treespec_pprint(treespec: TreeSpec) -> str:
    """The spec as the tree it describes, with a star for each leaf."""

    class _Star:
        def __repr__(self) -> str:
            return "*"

    return repr(treespec.unflatten([_Star()] * treespec.num_leaves))


def _flatten_into(
    tree: object, leaves: list[Any], is_leaf: Callable[[Any], bool] | None
) -> TreeSpec:
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(node.type, context, [_flatten_into(c, leaves, is_leaf) for c in children])


def tree_flatten(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its structure.

    Args:
        tree: anything.
        is_leaf: makes more things leaves: containers for which it is true.
    """
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of a structure with the given leaves."""
    if not isinstance(treespec, TreeSpec):
        fail(
            TypeError,
            "tree_unflatten",
            "a TreeSpec was required",
            type(treespec).__name__,
            hint="tree_structure(tree) gives one",
        )
    return treespec.unflatten(leaves)


def tree_flatten_spec(tree: PyTree, spec: TreeSpec) -> list[Any]:
    """The leaves of a tree that has a structure, lists and tuples counting as one.

    Args:
        tree: what is taken apart.
        spec: its structure.

    Raises:
        ValueError: the tree has another structure.
    """
    if spec.type not in (tuple, list):
        return list(spec.flatten_up_to(tree))
    parts = zip(tree, spec.children_specs, strict=True)
    return [leaf for child, inner in parts for leaf in tree_flatten_spec(child, inner)]


def tree_iter(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """The leaves, one after the other."""
    yield from tree_leaves(tree, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """The tree with a function applied to each leaf (and what stands at its place in `rests`)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *[spec.flatten_up_to(rest) for rest in rests]]
    return spec.unflatten([func(*row) for row in zip(*columns, strict=True)])


def tree_map_(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """Applies a function to each leaf for its effect; gives the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def map_only(kinds: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Decorates a function of leaves so that it leaves alone those of other types.

    Args:
        kinds: a type, a tuple or union of types, or a predicate.
    """
    if isinstance(kinds, (type, tuple)) or not callable(kinds):
        chosen: Callable[[Any], bool] = lambda leaf: isinstance(leaf, kinds)  # noqa: E731
    else:
        chosen = kinds

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(func)
        def apply(leaf: object) -> Any:
            return func(leaf) if chosen(leaf) else leaf

        return apply

    return decorate


def tree_map_only(
    type_or_types_or_pred: object,
    /,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """`tree_map` over the leaves of some types; the others stay."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: object,
    /,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """`tree_map_` over the leaves of some types."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(
    pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether a condition holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(
    pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether a condition holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any,
    /,
    pred: Callable[[Any], bool],
    tree: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Whether a condition holds for every leaf of some types."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any,
    /,
    pred: Callable[[Any], bool],
    tree: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Whether a condition holds for some leaf of some types."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: Callable[[Any], bool] | None = None
) -> list[Any] | None:
    """The leaves of a tree, each repeated for what it stands for in a deeper structure; None where it differs."""
    if _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    node = _node_of(tree)
    if node is None or treespec.is_leaf() or node.type is not treespec.type:
        return None
    children, context = node.flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found


# ------------------------------------------------------------------ paths


def _with_paths(
    tree: object, path: KeyPath, is_leaf: Callable[[Any], bool] | None
) -> Iterator[tuple[KeyPath, Any]]:
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        yield path, tree
        return
    if node.flatten_with_keys_fn is None:
        hint = "give flatten_with_keys_fn to register_pytree_node"
        required = "a container whose children have keys was required"
        fail(ValueError, "tree_flatten_with_path", required, type(tree).__name__, hint)
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _with_paths(child, (*path, key), is_leaf)


def tree_flatten_with_path(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves of a tree with their paths, and its structure."""
    return list(_with_paths(tree, (), is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree with their paths."""
    return list(_with_paths(tree, (), is_leaf))


def tree_map_with_path(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """`tree_map` for a function that takes the leaf's path first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    rows = zip(pairs, *columns, strict=True)
    return spec.unflatten([func(path, leaf, *others) for (path, leaf), *others in rows])


def keystr(kp: KeyPath) -> str:
    """A path as the Python text that follows the tree's name."""
    return "".join(str(key) for key in kp)


def key_get(obj: object, kp: KeyPath) -> Any:
    """What stands at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def arg_tree_leaves(*args: object, **kwargs: object) -> list[Any]:
    """The leaves of a call's arguments."""
    return tree_leaves((args, kwargs))
