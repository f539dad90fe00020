"""Lowering of statements: assignments, branches, loops, early exits, assertions, exceptions.

Takes the statements of a function. Gives the nodes of its graph and its result.
Keeps true: the graph has no jumps. What follows a branch that leaves goes into the other branch; where
only some path leaves, a flag says so, and what follows is guarded by it.
"""

from __future__ import annotations

import ast
from functools import partial
from typing import Any

from facula.jit.calls import Calls
from facula.jit.contexts import Contexts
from facula.jit.ir import Value
from facula.jit.joins import Joins
from facula.jit.packed_types import PackedType
from facula.jit.running import done_future
from facula.jit.source import UnsupportedNodeError
from facula.jit.values import Items, Local, Python
from facula.ops.table.schemas import types as T

__all__ = ["Statements"]

_IN_PLACE = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "remainder",
    ast.FloorDiv: "floor_divide", ast.Pow: "pow", ast.BitAnd: "__iand__", ast.BitOr: "__ior__",
    ast.BitXor: "__ixor__",
}  # fmt: skip


class Statements(Joins, Contexts, Calls):
    """The lowering of statements."""

    #: the function that is lowered
    unit: Any

    def statements(self, nodes: list[ast.stmt]) -> None:
        """Statements in order; stops where control leaves."""
        for i, node in enumerate(nodes):
            if self.gone():
                return
            rest = nodes[i + 1 :]
            if isinstance(node, ast.If) and rest and (leaves(node.body) or leaves(node.orelse)):
                self.statement(_moved(node, rest))
                return
            self.statement(node)
            if self.may_be_gone() and rest:
                self.guarded(partial(self.statements, rest))
                return

    def statement(self, node: ast.stmt) -> None:
        """One statement."""
        self.place = self.source.place(node) or self.place
        self.at: ast.stmt = node
        method = getattr(self, "_" + type(node).__name__, None)
        if method is None:
            self.refuse("a statement that TorchScript has was required",
                        f"{type(node).__name__}, which isn't supported", error=UnsupportedNodeError)  # fmt: skip
        assert method is not None
        method(node)

    # ---- simple ones
    def _Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.sugared(node.value)

    def _Pass(self, node: ast.Pass) -> None:
        pass

    def _Global(self, node: ast.Global) -> None:
        self.refuse("names of the function's own were required", "global",
                    hint="give the value as an argument")  # fmt: skip

    def _Assert(self, node: ast.Assert) -> None:
        found = self.examine(node.test)
        if found.known is None:
            made = self.emit("prim::If", [self.truth(found.value)], [])
            made.add_block()
            outer, self.block = self.block, made.add_block()
            self._fail(node)
            self.block = outer
        elif not found.known:
            self._fail(node)
            self.leave()
        self.refine(found.yes)

    def _fail(self, node: ast.Assert) -> None:
        text = self.constant("AssertionError: ")
        if node.msg is not None:
            said = self.expression(node.msg)
            said = said if said.type == T.STR else self.call("aten::str", [said])
            text = self.call("aten::add", [text, said])
        self.emit("prim::RaiseException", [text, self.constant(None)], [], exception=AssertionError)

    def _Raise(self, node: ast.Raise) -> None:
        text, kind = self.constant(""), None
        if node.exc is not None:
            given: Any = node.exc
            called = isinstance(given, ast.Call)
            exception, arguments = (given.func, given.args) if called else (given, [])
            thing = self.sugared(exception)
            kind = thing.obj if isinstance(thing, Python) and isinstance(thing.obj, type) else None
            if kind is None or not issubclass(kind, BaseException):
                self.refuse("an exception to raise was required (exceptions must derive from BaseException)",
                            ast.unparse(node.exc), hint="raise RuntimeError(text)")  # fmt: skip
            text = self._said(arguments) or text
        name = f"builtins.{kind.__name__}" if kind is not None else "builtins.RuntimeError"
        self.emit("prim::RaiseException", [text, self.constant(name)], [], exception=kind)
        self.leave()

    def _said(self, arguments: list[ast.expr]) -> Value | None:
        """The arguments of an exception as one text."""
        text: Value | None = None
        for each in arguments:
            said = self.expression(each)
            said = said if said.type == T.STR else self.call("aten::str", [said])
            if text is not None:
                said = self.call(
                    "aten::add", [self.call("aten::add", [text, self.constant(", ")]), said]
                )
            text = said
        return text

    def _Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                del self.env[target.id]
            elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
                self.refuse("del of one item was required (del statements only support deletion at a single index, "
                            "slicing is not supported)", ast.unparse(target),
                            hint="delete items in a loop, or keep the rest: x = x[:1] + x[3:]")  # fmt: skip
            elif isinstance(target, ast.Subscript):
                container = self.expression(target.value)
                self.call("aten::Delete", [container, self.expression(target.slice)])
            else:
                self.refuse("a name or an item to delete was required", ast.unparse(target))

    def _FunctionDef(self, node: ast.FunctionDef) -> None:
        if self.unit_is_archive():
            self.env[node.name] = Local(node)
            return
        self.refuse("functions at the top of a module were required (function definitions aren't supported)",
                    f"def {node.name} inside of another", hint="move it out of the function",
                    error=UnsupportedNodeError)  # fmt: skip

    def unit_is_archive(self) -> bool:
        """Whether the code comes from a file."""
        return False

    def forked_local(self, local: Local) -> Value:
        """The future of a function inside of another, as an archive's code forks it: it runs here."""
        saved, self.env = self.env, dict(self.env)
        *body, last = local.node.body
        self.statements(body)
        assert isinstance(last, ast.Return) and last.value is not None
        value = self.expression(last.value)
        self.env = saved
        return self.value("prim::fork", [value], T.future_of(value.type), done_future)

    def _Try(self, node: ast.Try) -> None:
        self.refuse("statements that TorchScript has were required", "try: try blocks aren't supported",
                    error=UnsupportedNodeError,
                    hint="test the condition beforehand, or mark the function @jit.ignore")  # fmt: skip

    # ---- assignments
    def _Assign(self, node: ast.Assign) -> None:
        hint = None
        if self._forgets(node):
            return
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            hint = self.declared.get(node.targets[0].id)
        elif len(node.targets) == 1 and isinstance(node.targets[0], ast.Attribute):
            hint = self._attribute_hint(node.targets[0])
        thing = self.sugared(node.value, hint)
        for target in node.targets:
            self.bind(target, thing)

    def _forgets(self, node: ast.Assign) -> bool:
        """Whether it is `x = None` of a graph's code, which only lets go of a tensor: x is not read again."""
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if not self.source.name.startswith("<eval_with_key>") or len(names) < len(node.targets):
            return False
        if not isinstance(node.value, ast.Constant) or node.value.value is not None:
            return False
        for name in names:
            for known in (self.env, self.declared, self.homes, self.annotated):
                known.pop(name, None)
        return True

    def _attribute_hint(self, target: ast.Attribute) -> T.Type | None:
        if isinstance(target.value, ast.Name):
            owner = self.env.get(target.value.id)
            if isinstance(owner, Value) and isinstance(owner.type, T.ClassType):
                return owner.type.attributes.get(target.attr)
        return None

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        kind = self.annotation(node.annotation)
        if isinstance(node.target, ast.Name):
            self._first_said(node.target.id)
            self.declared[node.target.id] = kind
            self.homes.pop(node.target.id, None)
            self.annotated[node.target.id] = self.block
        elif isinstance(node.target, ast.Attribute):
            self.declare_attribute(node.target, kind)
        if node.value is None:
            return
        value = self.expression(node.value, kind)
        made = self.fitted(value, kind)
        if made is None:
            name, have = ast.unparse(node.target), value.type.annotation_str
            self.refuse(
                f"a value of type {kind.annotation_str} was required for {name} "
                f"({_why_unlike(name, kind, value.type)})",
                have, hint="convert the value, or change the annotation",
            )  # fmt: skip
        self.bind(node.target, made)

    def _first_said(self, name: str) -> None:
        """Refuses an annotation of a name that has its type from a block around this one."""
        home = self.annotated.get(name) or self.homes.get(name)
        if self.env.get(name) is None or home is None or not self._locked(home):
            return
        if not self.unit_is_archive():
            self.refuse(f"an annotation where {name!r} is first assigned was required (Attempting to declare "
                        f"and annotate "
                        f"the type of variable {name!r} that is already defined in an outer block)", name,
                        hint="annotate the first assignment, or use another name")  # fmt: skip

    def declare_attribute(self, target: ast.Attribute, kind: T.Type) -> None:
        """`self.x: T = ...` in the constructor of a class."""
        owner = self.sugared(target.value)
        if isinstance(owner, Value) and isinstance(owner.type, T.ClassType):
            if not self.in_init and not self.unit_is_archive() and not owner.type.is_module:
                self.refuse("an annotation in __init__ was required (Type annotations on instance attributes must be "
                            "declared in __init__)", ast.unparse(target), error=ValueError,
                            hint="annotate the attribute where __init__ sets it")  # fmt: skip
            if self.in_init:
                owner.type.attributes.setdefault(target.attr, kind)

    def converted(self, value: Value, kind: T.Type) -> Value:
        """The value where a type is required."""
        made = self.fitted(value, kind)
        if made is None:
            self.refuse(
                f"a value of type {kind.annotation_str} was required", value.type.annotation_str
            )
        assert made is not None
        return made

    def bind(self, target: ast.AST, thing: object) -> None:
        """Assign to a name, an attribute, an item, or several."""
        if isinstance(target, ast.Name):
            self._bind_name(target.id, thing)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._bind_several(target, thing)
        elif isinstance(target, ast.Attribute):
            self._bind_attribute(target, thing)
        elif isinstance(target, ast.Subscript):
            self.store_subscript(target, self.as_value(thing))
        elif isinstance(target, ast.Starred):
            self.refuse("names beside the one with a star were required (A Starred expression may only appear "
                        "on the lhs "
                        "within the presence of another non-starred expression)", ast.unparse(target))  # fmt: skip
        else:
            self.refuse("a name, attribute or item to assign to was required", ast.unparse(target))

    def _bind_name(self, name: str, thing: object) -> None:
        if not isinstance(thing, Python):
            known = self.declared.get(name)
            if name in self.homes and not self._locked(self.homes[name]):
                known = None
            if known is not None and isinstance(thing, Value):
                made = self.fitted(thing, known, convert=False)
                home = self.annotated.get(name)
                if made is None and home is not None and not self._locked(home):
                    made = thing  # where it got its type, a name may get another
                    self.declared[name], self.homes[name] = thing.type, self.block
                if made is None:
                    module = isinstance(thing.type, T.ClassType) and thing.type.is_module
                    self.refuse(
                        f"variable {name!r} was required to keep its type {known.annotation_str} "
                        f"(Cannot re-assign {name!r} to a value of type {'module' if module else thing.type}; "
                        f"Variable {name!r} previously had type {known.annotation_str} but is now being assigned "
                        f"to a value of type {thing.type.annotation_str})",
                        thing.type.annotation_str,
                        hint="use another name, or annotate the first assignment",
                    )
                thing = made
            elif isinstance(thing, Value):
                self.declared[name], self.homes[name] = thing.type, self.block
            if isinstance(thing, Value) and not thing.hint:
                thing.hint = name
            self.env[name] = thing
            return
        self._bind_python(name, thing)

    def _locked(self, home: Any) -> bool:
        """Whether a name that got its type in a block keeps it here: in blocks inside of that."""
        block: Any = self.block.owner
        while block is not None:
            block = block.block
            if block is home:
                return True
            block = block.owner
        return False

    def _bind_python(self, name: str, thing: Python) -> None:
        """A function or a constant of the program, under another name."""
        try:
            self._bind_name(name, self.python_constant(thing.obj))
        except RuntimeError:
            self.env[name] = thing

    def _bind_several(self, target: ast.Tuple | ast.List, thing: object) -> None:
        stars = [i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)]
        if len(stars) > 1:
            self.refuse("Only one starred expression is allowed on the lhs", ast.unparse(target))
        star = stars[0] if stars else None
        if star is not None and len(target.elts) == 1:
            self.bind(target.elts[0], thing)
        items = self._items_of(thing, len(target.elts), star is not None)
        if star is None:
            if len(items) != len(target.elts):
                few = f"need {len(target.elts)} values to unpack, found only {len(items)}"
                many = f"too many values to unpack: {len(items)}"
                self.refuse(f"{len(target.elts)} values to unpack were required",
                            few if len(items) < len(target.elts) else many)  # fmt: skip
            for each, item in zip(target.elts, items, strict=True):
                self.bind(each, item)
            return
        after = len(target.elts) - star - 1
        middle = items[star : len(items) - after]
        for each, item in zip(target.elts[:star], items[:star], strict=True):
            self.bind(each, item)
        starred = target.elts[star]
        assert isinstance(starred, ast.Starred)
        self.bind(starred.value, self.make_tuple([self.as_value(m) for m in middle]))
        for each, item in zip(target.elts[star + 1 :], items[len(items) - after :], strict=True):
            self.bind(each, item)

    def _items_of(self, thing: object, count: int, starred: bool = False) -> list[Any]:
        if isinstance(thing, Items):
            return thing.items
        if isinstance(thing, Python) and callable(thing.obj):
            self.refuse("a tuple or list to unpack was required", f"{thing!r} cannot be used as a tuple",
                        hint="call it")  # fmt: skip
        value = self.as_value(thing)
        if value.type.kind == "Tuple":
            return self.unpack(value)
        if value.type.kind == "List" and not starred:
            node = self.emit("prim::ListUnpack", [value], [value.type.item] * count)
            return list(node.outputs_)
        if value.type.kind == "Any":
            self.refuse("a tuple or list to unpack was required", "Any",
                        hint="Provided tuple is not fully defined/refined: annotate it")  # fmt: skip
        return self.refuse("a tuple or list to unpack was required",
                           f"{value.type} cannot be used as a tuple",
                           hint="x.unbind() gives the parts of a tensor; items[1:] those of a list")  # fmt: skip

    def _bind_attribute(self, target: ast.Attribute, thing: object) -> None:
        owner = self.as_value(self.sugared(target.value), target)
        kind, value = owner.type, self.as_value(thing)
        if kind.kind == "Tensor" and target.attr in ("requires_grad", "data", "grad"):
            self.refuse("a method instead of an assignment was required", f"tensor.{target.attr} = ...",
                        hint="requires_grad_() and copy_() write in place")  # fmt: skip
        if not isinstance(kind, T.ClassType):
            self.refuse("an object with attributes was required", kind)
        assert isinstance(kind, T.ClassType)
        if target.attr in kind.setters and target.attr not in kind.attributes:
            method = f"{target.attr}__set"
            kind.methods.setdefault(method, kind.setters[target.attr])
            self.call_unit(kind.setters[target.attr], [owner, value], {}, method=method)
            return
        wanted = kind.attributes.get(target.attr)
        if wanted is None and self.in_init:
            self._at_top(target)
            wanted = kind.attributes[target.attr] = value.type
        if wanted is None:
            self.refuse(f"an attribute that {kind} has was required (Tried to set nonexistent attribute)", target.attr,
                        hint="attributes are set in __init__ first")  # fmt: skip
        assert wanted is not None
        if self.unit_is_archive() and isinstance(value.type, PackedType) and wanted == T.TENSOR:
            # older versions of PyTorch wrote packed parameters as tensors
            wanted = kind.attributes[target.attr] = value.type
        made = self.fitted(value, wanted)
        if made is None:
            self.refuse(f"a value of type {wanted.annotation_str} was required for the attribute "
                        f"{target.attr!r} (Wrong type "
                        "for attribute assignment)", value.type.annotation_str)  # fmt: skip
        assert made is not None
        self.emit("prim::SetAttr", [owner, made], [], name=target.attr)

    def _at_top(self, target: ast.Attribute) -> None:
        """Every object of a class has the same attributes: no branch or loop adds one."""
        body = list(self.unit.definition.body)
        body += [inner for each in body if isinstance(each, ast.With) for inner in each.body]
        if not any(self.at is each for each in body):
            self.refuse("an attribute that __init__ always sets was required (its first assignment cannot be in a "
                        "control-flow block)", ast.unparse(target),
                        hint="give it a value before the branch or loop")  # fmt: skip

    def _AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            container = self.sugared(target.value)
            if isinstance(container, Value) and container.type.kind in (
                "Tensor",
                "List",
                "Dict",
                "Tuple",
            ):
                self._augmented_item(node, container, target)
                return
        current = self.expression(_loaded(target))
        given = self.expression(node.value, None if current.type == T.TENSOR else current.type)
        made = self._in_place(node.op, current, given)
        if isinstance(target, ast.Name) or made.type != T.TENSOR:
            self.bind(target, made)

    def _in_place(self, op: ast.operator, current: Value, given: Value) -> Value:
        """`current op= given`: in place where the type can."""
        name = None
        if current.type.kind == "Tensor" or isinstance(op, (ast.Add, ast.Mult)) and (
            current.type.kind == "List"
        ):  # fmt: skip
            name = _IN_PLACE.get(type(op))
        if name is None:
            return self.augmented(op, current, given)
        return self.call(f"aten::{name if name.startswith('__') else name + '_'}", [current, given])

    def _augmented_item(self, node: ast.AugAssign, container: Value, target: ast.Subscript) -> None:
        """`container[index] op= value`: container and index are evaluated once."""
        if container.type.kind == "Tensor":
            view, places = self.place_in(container, target)
            current = view if places is None else self.call("aten::index", [view, places])
            made = self._in_place(node.op, current, self.expression(node.value))
            if places is not None:
                self.call("aten::index_put_", [view, places, made, self.constant(False)])
            elif type(node.op) not in _IN_PLACE:
                self.call("aten::copy_", [view, made, self.constant(False)])
            return
        if isinstance(target.slice, ast.Slice):
            self.refuse_slice()
        if container.type.kind == "Tuple":
            self.refuse("a list, dict or tensor was required ('Tuple' object does not support augmented assignment)",
                        container.type.annotation_str, hint="make a new tuple")  # fmt: skip
        index = self.expression(target.slice)
        current = self.call("aten::__getitem__", [container, index])
        given = self.expression(node.value, current.type)
        made = self._in_place(node.op, current, given)
        self.call("aten::_set_item", [container, index, made])

    # ---- leaving
    def _Return(self, node: ast.Return) -> None:
        if node.value is None:
            value = self.constant(None)
        else:
            value = self.expression(node.value, self.result_type)
        if self.result_type is not None:
            value = self._as_result(value)
        self.leave_with(value)

    def _as_result(self, value: Value) -> Value:
        assert self.result_type is not None
        made = self.fitted(value, self.result_type)
        if made is None:
            self.refuse(
                f"a return value of type {self.result_type.annotation_str} was required (Return value was annotated "
                f"as having type {self.result_type.annotation_str} but is actually of type "
                f"{value.type.annotation_str})",
                value.type.annotation_str,
                hint="change the annotation, or convert the value",
            )
        assert made is not None
        return made

    def _Break(self, node: ast.Break) -> None:
        self.set_flag("$broke")
        self.leave()

    def _Continue(self, node: ast.Continue) -> None:
        self.set_flag("$continued")
        self.leave()


def _why_unlike(name: str, kind: T.Type, have: T.Type) -> str:
    """What is wrong with a value that is assigned to an annotated name."""
    said, found = kind.annotation_str, have.annotation_str
    if have.kind == "List" and kind.kind not in ("List", "Optional", "Union"):
        return (
            f"Expected an annotation of type List for {name!r}, which is annotated with type {said}"
        )
    if have.kind == kind.kind == "List":
        return (
            f"List type annotation `{said}` did not match the types of the given list elements, "
            f"{have.item.annotation_str}"
        )
    if have.kind == kind.kind == "Dict":
        which = 0 if not T.is_subtype(have.inner[0], kind.inner[0]) else 1
        part = have.inner[which].annotation_str
        return (
            f"Dict type annotation `{said}` did not match the type of an actual {('key', 'value')[which]} "
            f"type `{part}`"
        )
    return f"Variable {name!r} is annotated with type {said} but is being assigned to a value of type {found}"


def leaves(nodes: list[ast.stmt]) -> bool:
    """Whether control cannot come to the end of the statements, as their form says."""
    for node in nodes:
        if isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
            return True
        if isinstance(node, ast.If) and node.orelse and leaves(node.body) and leaves(node.orelse):
            return True
        if isinstance(node, ast.With) and leaves(node.body):
            return True
    return False


def _moved(node: ast.If, rest: list[ast.stmt]) -> ast.If:
    """The branch with what follows it inside of the side that goes on."""
    body, orelse = node.body, node.orelse
    if not leaves(body):
        body = [*body, *rest]
    if not leaves(orelse):
        orelse = [*orelse, *rest]
    return ast.copy_location(ast.If(node.test, body, orelse), node)


def _loaded(target: ast.expr) -> ast.expr:
    """The target of an assignment as an expression."""
    return target
