"""Schemas as objects: what a function takes and gives, how two of them compare, and their text.

Takes names, types and defaults. Gives `FunctionSchema`, `Argument` and `AliasInfo`, with PyTorch's attributes.
Keeps true: the text says everything, so that two schemas are equal where their texts are, and reading the text
(`ops.table.schemas.reading`) gives an equal schema; nothing changes once it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from facula.core.errors import fail
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.codes import CODED, code_of

__all__ = ["REQUIRED", "AliasInfo", "Argument", "FunctionSchema"]

#: stands for the default of an argument that has none
REQUIRED: Any = object()


class AliasInfo:
    """The sets of memory that an argument or result belongs to, and whether they are written to.

    Args:
        is_write: whether the memory is written to
        before_set: the names of the sets, `*` for any
        after_set: the names behind the call, where they are others
        inside: whether the items of a list are meant, as in `Tensor(a)[]`, and not the list

    Example:
        >>> facula._C.parse_schema("f(Tensor(a!) x) -> Tensor(a!)").arguments[0].alias_info.is_write
        True
    """

    __slots__ = ("after_set", "before_set", "inside", "is_write")

    def __init__(
        self,
        is_write: bool,
        before_set: Iterable[str] = (),
        after_set: Iterable[str] | None = None,
        inside: bool = True,
    ) -> None:
        self.is_write, self.inside = is_write, inside
        self.before_set = frozenset(before_set)
        self.after_set = self.before_set if after_set is None else frozenset(after_set)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AliasInfo) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        before = "|".join(sorted(self.before_set)) + "!" * self.is_write
        if self.after_set == self.before_set:
            return f"({before})"
        return f"({before} -> {'|'.join(sorted(self.after_set))})"


class Argument:
    """An argument, or a result, of a schema.

    Args:
        name: its name; results may have none
        type: its type; dtypes, layouts and memory formats are ints
        default: what stands where it is left out
        kwarg_only: whether it is given by name only
        alias_info: the memory that it belongs to
        real_type: the type as the text names it, where that is another: `ScalarType?`
        N: of a list, the length for which one value may stand

    Example:
        >>> argument = facula._C.parse_schema("f(Tensor x, *, int[2] size=1) -> Tensor").arguments[1]
        >>> argument.name, argument.type, argument.default_value, argument.kwarg_only
        ('size', List[int], [1, 1], True)
    """

    __slots__ = (
        "N",
        "_default",
        "alias_info",
        "default_value",
        "kwarg_only",
        "name",
        "real_type",
        "type",
    )

    def __init__(
        self,
        name: str,
        type: T.Type,
        default: Any = REQUIRED,
        kwarg_only: bool = False,
        alias_info: AliasInfo | None = None,
        real_type: T.Type | None = None,
        N: int | None = None,
    ) -> None:
        self.name, self.type, self.kwarg_only, self.alias_info = name, type, kwarg_only, alias_info
        self.real_type, self.N, self._default = real_type or type, N, default
        self.default_value = None if default is REQUIRED else default

    def has_default_value(self) -> bool:
        """Whether it may be left out."""
        return self._default is not REQUIRED

    @property
    def is_write(self) -> bool:
        """Whether it is written to."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Whether it takes a result: it is given by name, and written to."""
        return self.kwarg_only and self.is_write

    def type_text(self) -> str:
        """Its type as schemas spell it, with length and memory: `int[2]?`, `Tensor(a!)[]`."""
        text = self.real_type.str()
        optional = "?" if text.endswith("?") else ""
        text = text.removesuffix("?")
        if self.N is not None and text.endswith("[]"):
            text = f"{text[:-1]}{self.N}]"
        if self.alias_info is None:
            return text + optional
        if not self.alias_info.inside or "[" not in text:
            return f"{text}{self.alias_info}{optional}"
        base, bracket, rest = text.partition("[")
        return f"{base}{self.alias_info}{bracket}{rest}{optional}"

    def _default_text(self) -> str:
        value = self._default
        whole = isinstance(value, (list, tuple)) and len(value) == self.N and len(set(value)) == 1
        symbolic = self.real_type.kind == "List" and self.real_type.item.kind == "SymInt"
        return text_of_default(value[0] if whole and not symbolic else value)

    def __str__(self) -> str:
        named = f"{self.type_text()} {self.name}" if self.name else self.type_text()
        return f"{named}={self._default_text()}" if self.has_default_value() else named

    __repr__ = __str__

    def _key(self) -> tuple[Any, ...]:
        return str(self), self.kwarg_only

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Argument) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def takes_all_of(self, old: Argument, later: bool = False) -> bool:
        """Whether what was given to, or came from, an older argument is good here; `later`: the other way round."""
        if (self.name, self.N, self.alias_info) != (old.name, old.N, old.alias_info):
            return False
        if self.kwarg_only and not old.kwarg_only:
            return False
        wide, narrow = (old, self) if later else (self, old)
        if not T.is_subtype(narrow.type, wide.type):
            return False
        if later and self.has_default_value() and not old.has_default_value():
            return False
        if not old.has_default_value():
            return True
        return self.has_default_value() and self._default_text() == old._default_text()


def text_of_default(value: Any) -> str:
    """A default as schemas write it: `1.`, `"mean"`, `[0, 0]`."""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")
        return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'
    if isinstance(value, float):
        text = format(value, ".17g")
        return f"{text}." if text.lstrip("-").isdigit() else text
    if isinstance(value, complex):
        return f"{text_of_default(value.real)}+{text_of_default(value.imag)}j"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(text_of_default, value))}]"
    if isinstance(value, CODED):
        return str(code_of(value))
    return str(value)


class FunctionSchema:
    """What a function takes and gives.

    Args:
        name: `aten::add`
        overload_name: which of several functions of that name, or nothing
        arguments: what it takes
        returns: what it gives
        is_vararg: whether further values are taken
        is_varret: whether further values are given

    Example:
        >>> schema = facula._C.parse_schema("my::scale.int(Tensor x, int by=2) -> Tensor")
        >>> schema.name, schema.overload_name, schema.arguments[1].default_value
        ('my::scale', 'int', 2)
    """

    __slots__ = ("_text", "arguments", "is_vararg", "is_varret", "name", "overload_name", "returns")

    def __init__(
        self,
        name: str,
        overload_name: str,
        arguments: Sequence[Argument],
        returns: Sequence[Argument],
        is_vararg: bool = False,
        is_varret: bool = False,
    ) -> None:
        self.name, self.overload_name = name, overload_name
        self.arguments, self.returns = list(arguments), list(returns)
        self.is_vararg, self.is_varret = is_vararg, is_varret
        self._check_order()
        self._text = self._made_text()

    def _check_order(self) -> None:
        """Arguments by position without a default do not stand behind those with one."""
        optional = ""
        for argument in self.arguments:
            if argument.has_default_value():
                optional = argument.name
            elif optional and not argument.kwarg_only:
                fail(RuntimeError, "schema", "arguments with defaults behind those without were required "
                     "(Non-default positional argument follows default argument)", argument.name,
                     hint=f"give {argument.name} a default, or place it before {optional}")  # fmt: skip
        if optional and self.is_vararg:
            fail(RuntimeError, "schema", "no defaults were required: schemas with vararg (...) can't have default "
                 "value args", optional, hint=f"leave out the default of {optional}, or '...'")  # fmt: skip

    @property
    def is_mutable(self) -> bool:
        """Whether an argument is written to."""
        return any(argument.is_write for argument in self.arguments)

    def _is_view_op(self) -> bool:
        """Whether a result shares the memory of an argument that is not written to."""
        given = [a.alias_info for a in self.arguments if a.alias_info is not None]
        return any(not info.is_write for info in given) and not self.is_mutable

    def _made_text(self) -> str:
        shown, behind_star = [], False
        for argument in self.arguments:
            if argument.kwarg_only and not behind_star:
                behind_star = True
                shown.append("*")
            shown.append(str(argument))
        if self.is_vararg:
            shown.append("...")
        results = [*map(str, self.returns), *(["..."] if self.is_varret else [])]
        # a tuple stands in brackets of its own
        bare = len(results) == 1 and not results[0].startswith("(")
        given = results[0] if bare else f"({', '.join(results)})"
        dot = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{dot}({', '.join(shown)}) -> {given}"

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionSchema):
            return NotImplemented
        return self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __deepcopy__(self, memo: object) -> FunctionSchema:
        return self

    # ---- what changes of a schema leave programs working
    def _plain(self) -> int:
        """The number of arguments in front of the first that takes a result."""
        places = [i for i, argument in enumerate(self.arguments) if argument.is_out]
        return places[0] if places else len(self.arguments)

    def _same_head(self, old: FunctionSchema) -> bool:
        mine = self.name, self.overload_name, self.is_vararg, self.is_varret, len(self.returns)
        return mine == (
            old.name, old.overload_name, old.is_vararg, old.is_varret, len(old.returns),
        )  # fmt: skip

    def is_backward_compatible_with(self, old_schema: FunctionSchema) -> bool:
        """Whether calls that were written for an older schema mean the same by this one.

        Args:
            old_schema: the older one

        Example:
            >>> parse = facula._C.parse_schema
            >>> parse("f(Tensor x, int n=1) -> Tensor").is_backward_compatible_with(parse("f(Tensor x) -> Tensor"))
            True
        """
        old = old_schema
        if not self._same_head(old) or len(self.arguments) < len(old.arguments):
            return False
        if not all(o.takes_all_of(n) for n, o in zip(self.returns, old.returns, strict=True)):
            return False
        mine, theirs = self._plain(), old._plain()
        if mine < theirs:
            return False
        plain = zip(self.arguments[:theirs], old.arguments[:theirs], strict=True)
        added = self.arguments[theirs:mine]
        outs, old_outs = self.arguments[mine:], old.arguments[theirs:]
        return (
            all(n.takes_all_of(o) for n, o in plain)
            and all(argument.has_default_value() for argument in added)
            and len(outs) >= len(old_outs)
            and all(n.takes_all_of(o) for n, o in zip(outs, old_outs, strict=False))
        )

    def check_forward_compatible_with(self, old_schema: FunctionSchema) -> tuple[bool, str]:
        """Whether programs that this schema's calls are saved in run where the older one is known, and why not;
        results are counted, and not compared, as in PyTorch.

        Args:
            old_schema: the older one

        Example:
            >>> parse = facula._C.parse_schema
            >>> parse("f(int a=4) -> int").check_forward_compatible_with(parse("f(int a=1) -> int"))
            (False, "'a' is not forward compatible with the older version of the schema")
        """
        old = old_schema
        if not self._same_head(old):
            return False, "Function schemas differ in name, or in the number of results"
        mine, theirs = self._plain(), old._plain()
        outs, old_outs = self.arguments[mine:], old.arguments[theirs:]
        if len(outs) != len(old_outs):
            return False, "Function schema should have the same number of out arguments"
        both = min(mine, theirs)
        plain = zip(self.arguments[:both], old.arguments[:both], strict=True)
        for n, o in (*plain, *zip(outs, old_outs, strict=True)):
            if not n.takes_all_of(o, later=True):
                return (
                    False,
                    f"'{n.name}' is not forward compatible with the older version of the schema",
                )
        begin = "Function schema is not forward compatible since the new argument"
        for argument in self.arguments[both:mine]:
            shown = f"{begin} '{argument.name}' of type {argument.type.str()}"
            if not argument.has_default_value():
                return False, f"{shown} did not provide a default value."
            if isinstance(argument.default_value, (list, tuple, dict)):
                return False, f"{shown} has a container type as its default value."
        return True, ""
