"""Lowering of subscripts, slices and comprehensions, to be read and to be written.

Takes syntax trees. Gives values; writes in place.
Keeps true: an index of a tensor becomes `select`, `slice`, `unsqueeze` and `index`, in the order of its
parts, as PyTorch's does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from facula import nn
from facula.jit.builder import constant_of
from facula.jit.conditions import Conditions
from facula.jit.ir import Value
from facula.jit.source import NotSupportedError
from facula.jit.values import Items, Python, Range
from facula.ops.table.schemas import types as T

__all__ = ["Subscripts"]


def _as_slice(node: ast.expr) -> ast.expr:
    """An index with `slice(a, b)` written as `a:b`: so does the code of traced graphs."""
    if isinstance(node, ast.Tuple):
        return ast.copy_location(ast.Tuple([_as_slice(e) for e in node.elts], node.ctx), node)
    made = (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "slice"
    )
    if not made or not isinstance(node, ast.Call) or not 1 <= len(node.args) <= 3:
        return node
    if node.keywords:
        return node
    parts = [None if isinstance(a, ast.Constant) and a.value is None else a for a in node.args]
    lower, upper, step = [None, *parts, None] if len(parts) == 1 else [*parts, None][:3]
    return ast.copy_location(ast.Slice(lower, upper, step), node)


class Subscripts(Conditions):
    """The lowering of subscripts and comprehensions."""

    def _Subscript(self, node: ast.Subscript, hint: T.Type | None = None) -> Any:
        node.slice = _as_slice(node.slice)
        thing = self.sugared(node.value)
        if isinstance(thing, Python):
            return self.wrap(self._python_item(thing.obj, node))
        if isinstance(thing, Items):
            return self._of_items(thing, node)
        value = self.as_value(thing)
        kind = value.type
        if kind.kind == "Tensor":
            return self.tensor_index(value, self._parts(node.slice))
        if isinstance(kind, T.ClassType):
            return self._of_object(value, kind, node, hint)
        if kind.kind == "Tuple":
            return self._of_tuple(value, node)
        if kind.kind == "Optional":
            self.refuse("a list, dict, tuple or tensor was required", kind,
                        hint="exclude None first: `assert x is not None`")  # fmt: skip
        if kind.kind not in ("List", "Dict", "str"):
            self.refuse(
                "a list, dict, tuple, text or tensor was required",
                f"'{kind}' object is not subscriptable",
            )
        if isinstance(node.slice, ast.Slice):
            return self.call("aten::slice", [value, *self._bounds(node.slice)])
        return self.call("aten::__getitem__", [value, self.expression(node.slice)])

    def unit_is_archive(self) -> bool:
        """Whether the code comes from a file."""
        raise NotImplementedError

    def wrap(self, obj: object) -> Any:
        raise NotImplementedError

    def _python_item(self, obj: Any, node: ast.Subscript) -> Any:
        known, key = constant_of(self.expression(node.slice))
        if not known or self.unit_is_archive():
            self.refuse("a constant index of a Python value was required", ast.unparse(node.slice))
        return obj[key]

    def _of_items(self, thing: Items, node: ast.Subscript) -> Any:
        if isinstance(node.slice, ast.Slice):
            return Items(thing.items[self._constant_slice(node.slice)])
        known, i = constant_of(self.expression(node.slice))
        if not known:
            self.refuse("a constant index was required", ast.unparse(node.slice))
        return thing.items[i]

    def _of_object(
        self, value: Value, kind: T.ClassType, node: ast.Subscript, hint: T.Type | None
    ) -> Any:
        interface = isinstance(hint, T.ClassType) and hint.is_interface
        if interface and kind.is_module and self.unit_is_archive():
            return self._of_interface(value, kind, self.expression(node.slice), hint)
        before = len(self.block.nodes_)
        items = self.items_of_module(value, kind)
        listed = len(self.block.nodes_)
        if items is None:
            return self.call_method(value, "__getitem__", [self.expression(node.slice)], {})
        if isinstance(node.slice, ast.Slice):
            return Items([v for _, v in items][self._constant_slice(node.slice)])
        index = self.expression(node.slice)
        known, i = constant_of(index)
        if not known and interface:
            del self.block.nodes_[before:listed]
            return self._of_interface(value, kind, index, hint)
        if not known:
            self._refuse_index(kind, node)
        if isinstance(i, str):
            if i not in dict(items):
                self.refuse(f"the name of a module was required: {', '.join(dict(items)) or 'there is none'}",
                            f"Key Error, {i}")  # fmt: skip
            return dict(items)[i]
        if not -len(items) <= i < len(items):
            self.refuse(
                f"an index below {len(items)} was required (Index {i} out of range of length {len(items)})",
                i,
            )
        return items[i][1]

    def _refuse_index(self, kind: T.ClassType, node: ast.Subscript) -> None:
        """The error of an index of modules that only the running program knows."""
        named = isinstance(kind.python, type) and issubclass(kind.python, nn.ModuleDict)
        what, container = (
            ("string", "ModuleDict") if named else ("integer", "ModuleList or Sequential")
        )
        literal = '"a"' if named else "4"
        self.refuse(
            f"a constant index of modules, or an annotation with their interface, was required (Unable to "
            f"extract {what} "
            f"literal index. {container} indexing is only supported with {what} literals. For example, 'i = {literal}; "
            "self.layers[i](x)' will fail because i is not a literal.)",
            ast.unparse(node.slice),
            hint="loop over the modules, or annotate: `layer: AnInterface = self.layers[i]`",
        )

    def _of_interface(self, value: Value, kind: T.ClassType, index: Value, wanted: Any) -> Value:
        """The module with an index that only the running program knows: each has to be of the interface."""
        for name, own in kind.attributes.items():
            if not isinstance(own, T.ClassType) or not own.is_module:
                continue
            lacking = T.unlike_interface(own, wanted)
            if lacking:
                self.refuse(
                    f"modules of the interface {wanted} were required (Attribute {name} is not of annotated "
                    f"type {wanted})",
                    lacking, hint="give the module the methods of the interface, with their types",
                )  # fmt: skip
            for method in wanted.methods:
                own.methods[method].compiled()
        return self.value("prim::ModuleContainerIndex", [value, index], wanted)

    def items_of_module(self, value: Value, kind: T.ClassType) -> list[tuple[str, Value]] | None:
        raise NotImplementedError

    def _of_tuple(self, value: Value, node: ast.Subscript) -> Any:
        items = self.unpack(value)
        if isinstance(node.slice, ast.Slice):
            return self.make_tuple(items[self._constant_slice(node.slice)])
        index = self.expression(node.slice)
        known, i = constant_of(index)
        if known:
            if not isinstance(i, int) or not -len(items) <= i < len(items):
                self.refuse(f"an index of a tuple of {len(items)} was required", i)
            return items[i]
        if len(set(value.type.inner)) == 1:
            return self.value("prim::TupleIndex", [value, index], value.type.inner[0])
        return self.refuse("a constant index of a tuple of different types was required (Cannot index into a tuple "
                           "with a non-integer literal because we cannot resolve the output type)",
                           ast.unparse(node.slice))  # fmt: skip

    def _constant_slice(self, node: ast.Slice) -> slice:
        parts = []
        for part in (node.lower, node.upper, node.step):
            known, value = constant_of(self.expression(part)) if part is not None else (True, None)
            if not known:
                self.refuse("constant bounds of a slice were required", ast.unparse(node))
            parts.append(value)
        return slice(*parts)

    def _bounds(self, node: ast.Slice) -> list[Value]:
        given = (node.lower, node.upper)
        made = [self.constant(None) if b is None else self.expression(b) for b in given]
        return [*made, self.constant(1) if node.step is None else self.expression(node.step)]

    # ---- tensors
    def _parts(self, node: ast.AST) -> list[Any]:
        """The parts of an index: values, slices, None, Ellipsis."""
        given = node.elts if isinstance(node, ast.Tuple) else [node]
        made: list[Any] = []
        for part in given:
            if isinstance(part, ast.Slice):
                made.append(part)
                continue
            thing = self.sugared(part)
            if isinstance(thing, Python) and thing.obj is Ellipsis:
                made.append(Ellipsis)
                continue
            value = self.as_value(thing)
            made.extend(self.unpack(value) if value.type.kind == "Tuple" else [value])
        return made

    def tensor_index(self, value: Value, parts: list[Any]) -> Value:
        """`tensor[parts]`."""
        value, indices = self._views(value, parts)
        if not indices:
            return value
        return self.call("aten::index", [value, self._index_list(indices)])

    def _index_list(self, indices: list[Value | None]) -> Value:
        items = [self.constant(None) if i is None else i for i in indices]
        return self.make_list(items, T.optional_of(T.TENSOR))

    def _views(self, value: Value, parts: list[Any]) -> tuple[Value, list[Value | None]]:
        """The view that the simple parts give, and the tensors that remain to index with."""
        indices: list[Value | None] = []
        dim = 0
        taken = sum(
            not (p is Ellipsis or isinstance(p, Value) and p.type.kind in ("NoneType", "bool"))
            for p in parts
        )
        seen = 0
        after_ellipsis = False
        for part in parts:
            at = self.constant(dim if not after_ellipsis else dim - (taken - seen))
            if part is Ellipsis:
                after_ellipsis, dim = True, 0
                continue
            if isinstance(part, ast.Slice):
                if part.lower or part.upper or part.step:
                    value = self.call("aten::slice", [value, at, *self._bounds(part)])
            elif part.type == T.NONE:
                if after_ellipsis:
                    at = self.constant(dim - (taken - seen) - 1)
                value = self.call("aten::unsqueeze", [value, at])
                dim += not after_ellipsis
                continue
            elif part.type.kind in ("int", "Scalar"):
                value = self.call("aten::select", [value, at, part])
                seen += 1
                continue
            elif part.type.kind == "bool":
                return self.refuse(
                    "an index of ints, slices, None, ... or tensors was required", "bool"
                )
            else:
                tensor = self.fitted(part, T.TENSOR) or self.call("aten::tensor", [part])
                if after_ellipsis:
                    self.refuse("a tensor index in front of ... was required", "one behind it",
                                hint="write out the slices: x[:, :, index]")  # fmt: skip
                indices += [None] * (dim - len(indices)) + [tensor]
            seen += 1
            dim += not after_ellipsis
        return value, indices

    def store_subscript(self, target: ast.Subscript, given: Value) -> None:
        """`container[index] = value`."""
        target.slice = _as_slice(target.slice)
        container = self.expression(target.value)
        kind = container.type
        if kind.kind == "Tensor":
            self._store_tensor(container, target, given)
        elif isinstance(kind, T.ClassType):
            self.call_method(container, "__setitem__", [self.expression(target.slice), given], {})
        elif isinstance(target.slice, ast.Slice):
            self.refuse_slice()
        elif kind.kind == "Tuple":
            self.refuse("a list, dict or tensor was required ('Tuple' object does not support subscripted assignment)",
                        kind.annotation_str, hint="make a new tuple")  # fmt: skip
        else:
            self.call("aten::_set_item", [container, self.expression(target.slice), given])

    def refuse_slice(self) -> None:
        """Refuse to write to a slice of a list."""
        self.refuse("an item to write to was required", "a slice of a list",
                    hint="write the items one by one")  # fmt: skip

    def place_in(self, container: Value, target: ast.Subscript) -> tuple[Value, Value | None]:
        """Where `tensor[index]` is: a view, and the list of the tensors that index it."""
        view, indices = self._views(container, self._parts(target.slice))
        return view, self._index_list(indices) if indices else None

    def _store_tensor(self, container: Value, target: ast.Subscript, given: Value) -> None:
        view, places = self.place_in(container, target)
        if given.type.kind != "Tensor":
            options = {
                "dtype": self.call("prim::dtype", [view]),
                "device": self.call("prim::device", [view]),
            }
            given = self.call("aten::tensor", [given], options)
        if places is not None:
            self.call("aten::index_put_", [view, places, given, self.constant(False)])
        else:
            self.call("aten::copy_", [view, given, self.constant(False)])

    # ---- comprehensions
    def _ListComp(self, node: ast.ListComp, hint: T.Type | None = None) -> Any:
        generator = self._generator(node.generators)
        source = self.iterable(self.sugared(generator.iter))
        wanted = _list_hint(hint)
        if isinstance(source, Items) and not generator.ifs:
            made = []
            for item in source.items:
                with_item = self._inner_scope(generator.target, item)
                made.append(self.expression(node.elt, wanted))
                self.env = with_item
            return self.list_of_values(made, T.list_of(wanted) if wanted else None)
        result = self.make_list([], T.TENSOR)

        def body(item: object) -> None:
            saved = self._inner_scope(generator.target, item)
            self._guarded(generator.ifs, lambda: self._append(node.elt, result, wanted))
            self.env = saved

        self.simple_loop(source, body)
        return result

    def _GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        return self._ListComp(node)  # type: ignore[arg-type]

    def _append(self, element: ast.AST, result: Value, wanted: T.Type | None) -> None:
        item = self.expression(element, wanted)
        if wanted is not None:
            item = self.fitted(item, wanted) or item
        result.type = T.list_of(wanted or item.type)
        self.call("aten::append", [result, item])

    def _DictComp(self, node: ast.DictComp, hint: T.Type | None = None) -> Value:
        generator = self._generator(node.generators)
        source = self.iterable(self.sugared(generator.iter))
        result = self.value("prim::DictConstruct", [], T.dict_of(T.STR, T.TENSOR))

        def store() -> None:
            key, item = self.expression(node.key), self.expression(node.value)
            result.type = T.dict_of(key.type, item.type)
            self.call("aten::_set_item", [result, key, item])

        def body(item: object) -> None:
            saved = self._inner_scope(generator.target, item)
            self._guarded(generator.ifs, store)
            self.env = saved

        if isinstance(source, Items):
            for item in source.items:
                body(item)
        else:
            self.simple_loop(source, body)
        return result

    def _generator(self, generators: list[ast.comprehension]) -> ast.comprehension:
        if len(generators) != 1:
            self.refuse("one `for` in a comprehension was required (Only a single generator is currently supported)",
                        len(generators), hint="write the loops out", error=NotSupportedError)  # fmt: skip
        return generators[0]

    def _inner_scope(self, target: ast.AST, item: object) -> dict[str, Any]:
        """Binds the variable of a comprehension; gives the names as they were."""
        saved = dict(self.env)
        self.bind(target, item)
        return saved

    def bind(self, target: ast.AST, thing: object) -> None:
        raise NotImplementedError

    def iterable(self, thing: object) -> Items | Range:
        raise NotImplementedError

    def simple_loop(self, source: Any, body: Any) -> None:
        raise NotImplementedError

    def _guarded(self, tests: list[ast.expr], action: Callable[..., Any]) -> None:
        """Do it where all tests hold."""
        if not tests:
            action()
            return
        test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
        found = self.examine(test)
        if found.known is not None:
            if found.known:
                action()
            return
        node = self.emit("prim::If", [self.truth(found.value)], [])
        outer, saved = self.block, dict(self.env)
        self.block = node.add_block()
        self.refine(found.yes)
        action()
        node.add_block()
        self.block, self.env = outer, saved


def _list_hint(hint: T.Type | None) -> T.Type | None:
    if hint is None:
        return None
    return next((m.item for m in T.members(hint) if m.kind == "List"), None)
