"""The text of schemas, read: `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.

Takes a text. Gives a `FunctionSchema`.
Keeps true: nothing is evaluated; what is no schema is an error that shows the place.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from facula import core
from facula.core.errors import fail
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.codes import code_of
from facula.ops.table.schemas.function import REQUIRED, AliasInfo, Argument, FunctionSchema

__all__ = ["parse_schema"]

#: one piece of a schema: a text, a number, a name, `->`, `...`, or a sign
_PIECE = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?j?)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign>->|\.\.\.|::|\S))"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}

#: the types that texts name: what the argument is, where that is no type of its own name
_TYPES: dict[str, T.Type] = {
    "Tensor": T.TENSOR, "int": T.INT, "float": T.FLOAT, "bool": T.BOOL, "str": T.STR, "complex": T.COMPLEX,
    "Scalar": T.NUMBER, "number": T.NUMBER, "None": T.NONE, "NoneType": T.NONE, "Device": T.DEVICE,
    "Generator": T.GENERATOR, "Any": T.ANY, "QScheme": T.QSCHEME, "Stream": T.STREAM, "ScalarType": T.INT,
    "Layout": T.INT, "MemoryFormat": T.INT, "DeviceIndex": T.INT, "SymInt": T.INT, "SymBool": T.BOOL,
    "Storage": T.Type("Storage"), "Capsule": T.Type("Capsule"), "AnyClassType": T.Type("AnyClassType"),
    "AnyEnumType": T.Type("AnyEnumType"), "AnyListType": T.ANY_LIST, "AnyTupleType": T.ANY_TUPLE,
    "Dimname": T.STR, "ConstQuantizerPtr": T.Type("Quantizer"), "AnyModuleType": T.Type("AnyModuleType"),
}  # fmt: skip
#: types that are ints or bools to who asks, and keep their names in texts
_NAMED = ("ScalarType", "Layout", "MemoryFormat", "SymInt", "SymBool")
_ONE = {"Future": T.future_of, "Await": T.await_of, "RRef": lambda item: T.Type("RRef", (item,))}
_WORDS: dict[str, Any] = {
    "None": None, "True": True, "False": False, "Mean": 1, "inf": float("inf"), "nan": float("nan"),
    "infinity": float("inf"),
}  # fmt: skip
#: types inside of types
_DEEPEST = 50
#: the classes that texts have named: one type for each name
_CLASSES: dict[str, T.Type] = {}
#: dtypes by their older names
_OLDER = {
    "long": "int64", "int": "int32", "short": "int16", "half": "float16", "float": "float32",
    "double": "float64", "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip
_CODES = ("strided", "contiguous_format", "preserve_format", "channels_last")


def parse_schema(schema: str, allow_typevars: bool = True) -> FunctionSchema:
    """A schema out of its text.

    Args:
        schema: `name.overload(Tensor x, *, int n=1) -> Tensor`
        allow_typevars: whether words in small letters that are no types stand for any type

    Raises:
        RuntimeError: the text is no schema.

    Example:
        >>> facula._C.parse_schema("f(Tensor(a!) x, int[2] k=1) -> (Tensor(a!) y, int n)")
        f(Tensor(a!) x, int[2] k=1) -> (Tensor(a!) y, int n)
    """
    if not isinstance(schema, str):
        fail(TypeError, "parse_schema", "a text was required", type(schema).__name__,
             hint="str(schema) is the text of a schema")  # fmt: skip
    return _Reader(schema, allow_typevars).schema()


class _Reader:
    """The pieces of a text, one after the other."""

    def __init__(self, text: str, variables: bool) -> None:
        self.text, self.variables, self.depth = text, variables, 0
        self.pieces = [
            (m.lastgroup or "", m[m.lastgroup or 0], m.start(m.lastgroup or 0))
            for m in _PIECE.finditer(text)
        ]
        self.at = 0

    # ---- pieces
    def kind(self) -> str:
        return self.pieces[self.at][0] if self.at < len(self.pieces) else "eof"

    def peek(self) -> str:
        return self.pieces[self.at][1] if self.at < len(self.pieces) else ""

    def next(self) -> str:
        found = self.peek()
        self.at += 1
        return found

    def take(self, sign: str) -> bool:
        """Whether a sign comes next; it is taken."""
        found = self.peek() == sign and self.kind() in ("sign", "name")
        self.at += found
        return found

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            self.wrong(sign)

    def wrong(self, wanted: str) -> NoReturn:
        """What was found is not what was wanted, with the place."""
        shown = {"name": "ident", "text": "string literal"}.get(self.kind(), self.kind())
        found = f"'{self.peek() if shown == 'sign' else shown}'"
        hint = "the form is name(Tensor x, int n=1) -> Tensor"
        self.refuse(f"expected {wanted} but found {found} here", hint)

    def refuse(self, said: str, hint: str, back: int = 0) -> NoReturn:
        start = (
            self.pieces[self.at - back][2] if self.at - back < len(self.pieces) else len(self.text)
        )
        fail(RuntimeError, "parse_schema", f"a schema was required: {said}:\n{self.text}\n{' ' * start}~ <--- HERE\n",
             hint=hint)  # fmt: skip

    def name(self) -> str:
        if self.kind() != "name":
            self.wrong("ident")
        return self.next()

    # ---- the parts of a schema
    def schema(self) -> FunctionSchema:
        name = self.name()
        if self.take("::"):
            name += f"::{self.name()}"
        elif self.take(":"):
            self.wrong(":")
        overload = self.name() if self.take(".") else ""
        if overload == "default":
            said = "the overload name 'default' is taken by the schema without one"
            self.refuse(said, "leave it out", 1)
        self.expect("(")
        arguments, more = self.arguments()
        if more and any(a.has_default_value() for a in arguments):
            return FunctionSchema(name, overload, arguments, [], True)  # which says what is wrong
        self.expect("->")
        returns, further = self.returns()
        if self.kind() != "eof":
            self.wrong("eof")
        return FunctionSchema(name, overload, arguments, returns, more, further)

    def arguments(self) -> tuple[list[Argument], bool]:
        found: list[Argument] = []
        by_name = False
        while not self.take(")"):
            if self.take("..."):
                self.expect(")")
                return found, True
            if self.take("*"):
                by_name = True
            else:
                found.append(self.argument(by_name))
            if not self.take(","):
                self.expect(")")
                break
        return found, False

    def returns(self) -> tuple[list[Argument], bool]:
        if self.take("..."):
            return [], True
        start = self.at
        if not self.take("("):
            return [self.argument(False, result=True)], False
        found: list[Argument] = []
        while not self.take(")"):
            if self.take("..."):
                self.expect(")")
                return found, True
            found.append(self.argument(False, result=True))
            if not self.take(","):
                self.expect(")")
                break
        if self.peek() in ("[", "?"):  # one result: a list of tuples, or a tuple or None
            self.at = start
            return [self.argument(False, result=True)], False
        return found, False

    def argument(self, by_name: bool, result: bool = False) -> Argument:
        kind, real, length, alias = self.type()
        if result:
            name = self.next() if self.kind() == "name" else ""
            return Argument(name, kind, alias_info=alias, real_type=real, N=length)
        name = self.name()
        default = REQUIRED
        if self.take("="):
            default = self.default(kind)
            if length is not None and not isinstance(default, (list, type(None))):
                default = [default] * length
        return Argument(name, kind, default, by_name, alias, real, length)

    # ---- types
    def type(self) -> tuple[T.Type, T.Type, int | None, AliasInfo | None]:
        """The type, the type as the text names it, the length of a list, and the memory."""
        self.depth += 1
        if self.depth > _DEEPEST:
            self.refuse(
                f"at most {_DEEPEST} types inside of each other were required", "make it flat"
            )
        kind, real = self.plain_type()
        self.depth -= 1
        alias = self.alias(True)
        length: int | None = None
        while True:
            if self.take("["):
                if length is not None or self.kind() not in ("number", "sign"):
                    self.wrong("ident")
                if self.kind() == "number":
                    length = int(self.next())
                self.expect("]")
                kind, real = T.list_of(kind), T.list_of(real)
                alias = alias or self.alias(False)
            elif self.take("?"):
                kind, real = T.optional_of(kind), T.optional_of(real)
                alias = alias or self.alias(False)
            else:
                return kind, real, length, alias

    def plain_type(self) -> tuple[T.Type, T.Type]:
        if self.take("("):
            parts = self.listed_types()
            return T.tuple_of([p[0] for p in parts]), T.tuple_of([p[1] for p in parts])
        word = self.name()
        if word in _ONE or word in ("Dict", "Union"):
            square = word in _ONE and self.take("[")
            if not square:
                self.expect("(")
            parts = self.listed_types("]" if square else ")")
            kinds, reals = [p[0] for p in parts], [p[1] for p in parts]
            if not kinds or word == "Dict" and len(kinds) != 2:
                self.wrong("a type")
            if word in _ONE:
                return _ONE[word](kinds[0]), _ONE[word](reals[0])
            if word == "Union":
                return T.union_of(kinds), T.union_of(reals)
            return T.dict_of(kinds[0], kinds[1]), T.dict_of(reals[0], reals[1])
        if word == "__torch__":
            while self.take("."):
                word += f".{self.name()}"
            kind = _CLASSES.setdefault(word, T.ClassType(word))
            return kind, kind
        if word in _TYPES:
            kind = _TYPES[word]
            return kind, T.Type(word) if word in _NAMED else kind
        if self.variables and word[0].islower():
            kind = T.Type(f"${word}")
            return kind, kind
        words = ", ".join(w for w in _TYPES if w not in ("number", "None"))
        said = "types of schemas were required (unknown type specifier)"
        self.refuse(said, f"the types are {words}", 1)

    def listed_types(self, end: str = ")") -> list[tuple[T.Type, T.Type]]:
        found = []
        while not self.take(end):
            kind, real, _, _ = self.type()
            found.append((kind, real))
            if self.kind() == "name":
                self.next()
            if not self.take(","):
                self.expect(end)
                break
        return found

    def alias(self, inside: bool) -> AliasInfo | None:
        if not self.take("("):
            return None
        before, written = self.sets()
        after = None
        if self.take("->"):
            after, _ = self.sets()
        self.expect(")")
        return AliasInfo(written, before, after, inside)

    def sets(self) -> tuple[list[str], bool]:
        found: list[str] = []
        written = False
        while True:
            found.append("*" if self.take("*") else self.name())
            written = self.take("!") or written
            if not self.take("|"):
                return found, written

    # ---- defaults
    def default(self, kind: T.Type) -> Any:
        kind = T.without_none(kind) if kind.kind == "Optional" else kind
        if self.take("["):
            items = []
            while not self.take("]"):
                items.append(self.default(kind.item if kind.kind == "List" else kind))
                if not self.take(","):
                    self.expect("]")
                    break
            return items
        item = kind.item if kind.kind == "List" else kind
        if self.kind() == "text":
            text = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), self.next()[1:-1])
            return core.device(text) if item.kind == "Device" else text
        if self.kind() == "number":
            return self.number(item)
        negative = self.take("-")
        word = self.peek()
        self.at += 1
        if word in _WORDS:
            return -_WORDS[word] if negative else _WORDS[word]
        constant = getattr(core, _OLDER.get(word, word), None)
        if word in _CODES or isinstance(constant, core.dtype):
            return code_of(constant)
        return self.refuse("a default of the type was required (invalid numeric default value)",
                           "a default is a number, a text, True, False, None, or a list of these", 1)  # fmt: skip

    def number(self, kind: T.Type) -> Any:
        text = self.next()
        value: Any = complex(text) if text.endswith("j") else float(text)
        if kind.kind == "complex":
            if self.kind() == "sign" and self.peek() == "+":
                self.next()
                value += complex(self.next())
            return complex(value)
        if kind.kind == "bool":
            return bool(value)
        whole = re.fullmatch(r"-?\d+", text) is not None
        return int(text) if whole and kind.kind != "float" else value
