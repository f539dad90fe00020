"""A reader of pickles that can make data and nothing else.

Takes the bytes of a pickle (protocols 0 to 5), a table of what may be made by name, and a function
for persistent ids; gives the object.  Keeps true: no import, no attribute lookup and no call
happens that is not in the table; no length in the file is believed before that many bytes are seen
to be there; whatever is wrong with the bytes is reported as an `UnpicklingError` that says where.
"""

import codecs
import contextlib
import struct
from collections import OrderedDict, deque
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any, NoReturn

from facula.core.errors import message

__all__ = ["DataUnpickler", "Maker", "UnpicklingError"]


class Maker:
    """What a name in a pickle may do: be called (`make`), and restore a state (`restore`).

    Where the name itself is kept as a value (a class in a dict), that value is `target`. A `bare` one is called
    with one value that stands in no tuple, as PyTorch's programs write members of enumerations.
    """

    __slots__ = ("bare", "make", "name", "restore", "target")

    def __init__(
        self,
        name: str,
        make: Callable[..., Any] | None,
        restore: Callable[[Any, Any], Any] | None = None,
        target: object = None,
        bare: bool = False,
    ) -> None:
        self.name, self.make, self.restore, self.target = name, make, restore, target
        self.bare = bare

    def __repr__(self) -> str:
        return f"<name {self.name}>"


class _Mark:
    """Stands on the stack where a run of items begins."""


_MARK = _Mark()
DAMAGE = (
    TypeError,
    ValueError,
    KeyError,
    OverflowError,
    AttributeError,
    SyntaxError,
    RecursionError,
)
_KEY_DEPTH = 64
_SIGNED_32 = struct.Struct("<i")
_UNSIGNED_16 = struct.Struct("<H")
_UNSIGNED_32 = struct.Struct("<I")
_UNSIGNED_64 = struct.Struct("<Q")
_DOUBLE = struct.Struct(">d")


class DataUnpickler:
    """Runs the stack machine of one pickle.

    `find` takes a module and a name and gives what may stand for it (a `Maker` or a constant), or
    raises KeyError; `persistent` takes a persistent id.  After `load`, `position` is the first byte
    behind the pickle.
    """

    def __init__(
        self,
        data: Any,
        find: Callable[[str, str], Any],
        persistent: Callable[[Any], Any],
        *,
        encoding: str = "utf-8",
        position: int = 0,
    ) -> None:
        self.data = memoryview(data).cast("B")
        self.position = position
        self.find, self.persistent, self.encoding = find, persistent, encoding
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.makers: dict[int, Maker] = {}  # by the id of the target
        self.restorers: dict[int, Maker] = {}  # by the id of what was made
        self.kept: list[Any] = []  # so that no id in the two is used twice

    def load(self) -> Any:
        """The object; raises `UnpicklingError` for anything that is not the pickle of data."""
        operations, data = OPERATIONS, self.data
        try:
            while True:
                code = data[self.position]
                self.position += 1
                if code == 0x2E:  # STOP
                    return self._finish()
                operation = operations[code]
                if operation is None:
                    self.fail(f"operations that make data: got opcode 0x{code:02x}")
                operation(self)
        except UnpicklingError:
            raise
        except (IndexError, struct.error):
            raise UnpicklingError(
                message(
                    "load",
                    "a complete pickle was required",
                    got=f"the end of the data, or an empty stack, at byte {self.position}",
                    hint="the file is truncated or damaged; fetch or save it again",
                )
            ) from None
        except DAMAGE as error:
            raise UnpicklingError(
                message(
                    "load",
                    "a well-formed pickle was required",
                    got=f"{type(error).__name__}: {error}, at byte {self.position}",
                    hint="the file is damaged; fetch or save it again",
                )
            ) from error

    def fail(
        self, required: str, hint: str = "the file is damaged or is not a checkpoint"
    ) -> NoReturn:
        """Raises for a pickle that asks for what is not to be had."""
        text, _, got = required.partition(": got ")
        where = f"{got}, at byte {self.position}" if got else f"byte {self.position}"
        raise UnpicklingError(message("load", text, got=where, hint=hint))

    def _finish(self) -> Any:
        if len(self.stack) != 1 or self.stack[0] is _MARK:
            self.fail(f"one object was required: got {len(self.stack)}")
        return self.stack.pop()

    # ---- bytes
    def take(self, count: int) -> memoryview:
        """The next `count` bytes."""
        end = self.position + count
        if count < 0 or end > len(self.data):
            raise IndexError
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def number(self, layout: struct.Struct) -> Any:
        value = layout.unpack_from(self.data, self.position)[0]
        self.position += layout.size
        return value

    def line(self) -> str:
        """The text up to the end of the line (protocol 0 and names)."""
        start = self.position
        # names are short: looking in windows avoids copying a large file for each
        window = 256
        while True:
            piece = bytes(self.data[start : start + window])
            at = piece.find(b"\n")
            if at >= 0:
                self.position = start + at + 1
                return piece[:at].decode("utf-8")
            if start + window >= len(self.data):
                raise IndexError
            window *= 4

    # ---- stack
    def items(self) -> list[Any]:
        """What stands above the last mark; takes it and the mark away."""
        stack = self.stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError
        found = stack[at + 1 :]
        del stack[at:]
        return found

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise IndexError
        return value

    def top(self, kind: type | tuple[type, ...]) -> Any:
        value = self.stack[-1]
        if not isinstance(value, kind):
            self.fail(f"a container to add to was required: got {type(value).__name__}")
        return value

    # ---- names
    def name(self, module: str, name: str) -> Any:
        with contextlib.suppress(KeyError):
            found = self.find(module, name)
            if not isinstance(found, Maker) or found.target is None:
                return found
            self.makers[id(found.target)] = found
            self.kept.append(found)
            return found.target
        self.fail(
            f"a pickle of tensors and plain data was required: got {module}.{name} (Weights only load failed. "
            f"Unsupported global: GLOBAL {module}.{name} was not an allowed global by default)",
            hint="loading never runs code. If you trust this class to be made from the file, "
            "call facula.serialization.add_safe_globals([the class]) first; otherwise save its "
            "state_dict() or a dict of plain values",
        )

    def make(self, maker: object, arguments: object) -> Any:
        maker = self.makers.get(id(maker), maker)
        if not isinstance(maker, Maker) or maker.make is None:
            shown = maker.name if isinstance(maker, Maker) else type(maker).__name__
            self.fail(f"something that may be called was required: got {shown}")
        if maker.bare and not isinstance(arguments, tuple):
            arguments = (arguments,)
        if not isinstance(arguments, tuple):
            self.fail(f"a tuple of arguments was required: got {type(arguments).__name__}")
        value = maker.make(*arguments)
        if maker.restore is not None:
            self.restorers[id(value)] = maker
            self.kept.append(value)
        return value

    def build(self) -> None:
        state = self.pop()
        value = self.stack[-1]
        maker = self.restorers.get(id(value))
        if maker is not None and maker.restore is not None:
            restored = maker.restore(value, state)
            if restored is not None and restored is not value:
                self.replace(value, restored)
        elif isinstance(value, (OrderedDict, dict)) and type(value) is not dict:
            set_attributes(value, state)
        else:
            self.fail(f"an object that takes a state was required: got {type(value).__name__}")

    def replace(self, old: object, new: object) -> None:
        """Puts what a state made in the place of the object that was waiting for it."""
        self.stack[-1] = new
        for key, value in self.memo.items():
            if value is old:
                self.memo[key] = new


def checked_key(key: Any) -> Any:
    """A key that may be hashed: nested tuples hash by recursion in C, which must have an end."""
    if type(key) is not str and type(key) in (tuple, frozenset):
        level, depth = [key], 0
        while level:
            depth += 1
            if depth > _KEY_DEPTH:
                raise ValueError(f"a key may be nested {_KEY_DEPTH} deep")
            level = [part for item in level for part in item if type(part) in (tuple, frozenset)]
    return key


def set_attributes(value: object, state: object) -> None:
    """Gives an object the attributes that a state holds: plain names, no dunder names."""
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    frozen = getattr(getattr(type(value), "__dataclass_params__", None), "frozen", False)
    put = object.__setattr__ if frozen else setattr  # as pickle, which asks no class
    for part in parts:
        if part is None:
            continue
        if not isinstance(part, dict) or not all(isinstance(key, str) for key in part):
            raise TypeError("a state must be a dict of attributes")
        for key, item in part.items():
            if key.startswith("__"):
                raise ValueError(f"a state may not set {key}")
            put(value, key, item)


# ------------------------------------------------------------------ one function per operation


def _push(make: Callable[[DataUnpickler], Any]) -> Callable[[DataUnpickler], None]:
    return lambda machine: machine.stack.append(make(machine))


def _constant(value: object) -> Callable[[DataUnpickler], None]:
    return lambda machine: machine.stack.append(value)


def _tuple_of(count: int) -> Callable[[DataUnpickler], None]:
    def operation(machine: DataUnpickler) -> None:
        values = machine.stack[len(machine.stack) - count :]
        if len(values) < count or any(value is _MARK for value in values):
            raise IndexError
        machine.stack[-count:] = [tuple(values)]

    return operation


def _sized(layout: struct.Struct | None, convert: Callable[..., Any]) -> Any:
    """A value of so many bytes, the count standing before it (one byte where `layout` is None)."""

    def operation(machine: DataUnpickler) -> None:
        count = machine.take(1)[0] if layout is None else machine.number(layout)
        machine.stack.append(convert(machine, machine.take(count)))

    return operation


def _text(machine: DataUnpickler, piece: memoryview) -> str:
    return str(piece, "utf-8", "surrogatepass")


def _old_text(machine: DataUnpickler, piece: memoryview) -> str | bytes:
    return bytes(piece) if machine.encoding == "bytes" else str(piece, machine.encoding)


def _bytes(machine: DataUnpickler, piece: memoryview) -> bytes:
    return bytes(piece)


def _bytearray(machine: DataUnpickler, piece: memoryview) -> bytearray:
    return bytearray(piece)


def _long(machine: DataUnpickler, piece: memoryview) -> int:
    return int.from_bytes(piece, "little", signed=True)


def _written_int(machine: DataUnpickler) -> int | bool:
    text = machine.line()
    return text == "01" if text in ("00", "01") else int(text)


def _written_string(machine: DataUnpickler) -> str | bytes:
    text = machine.line()
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "'\"":
        raise ValueError("a quoted string was required")
    raw = codecs.escape_decode(text[1:-1].encode())[0]
    return raw if machine.encoding == "bytes" else raw.decode(machine.encoding)


def _written_text(machine: DataUnpickler) -> str:
    return machine.line().encode("latin-1").decode("raw-unicode-escape")


def _append(machine: DataUnpickler) -> None:
    value = machine.pop()
    machine.top((list, deque)).append(value)


def _appends(machine: DataUnpickler) -> None:
    values = machine.items()
    machine.top((list, deque)).extend(values)


def _set_item(machine: DataUnpickler) -> None:
    value, key = machine.pop(), machine.pop()
    machine.top(dict)[checked_key(key)] = value


def _pairs(values: list[Any]) -> zip:
    if len(values) % 2:
        raise ValueError("a value is missing behind a key")
    return zip(values[::2], values[1::2], strict=True)


def _set_items(machine: DataUnpickler) -> None:
    values = machine.items()
    target = machine.top(dict)
    for key, value in _pairs(values):
        target[checked_key(key)] = value


def _add_items(machine: DataUnpickler) -> None:
    values = machine.items()
    machine.top(set).update(map(checked_key, values))


def _remember(key: Callable[[DataUnpickler], int]) -> Callable[[DataUnpickler], None]:
    def operation(machine: DataUnpickler) -> None:
        value = machine.stack[-1]
        if value is _MARK:
            raise IndexError
        machine.memo[key(machine)] = value

    return operation


def _recall(key: Callable[[DataUnpickler], int]) -> Callable[[DataUnpickler], None]:
    return lambda machine: machine.stack.append(machine.memo[key(machine)])


def _one_byte(machine: DataUnpickler) -> int:
    return machine.take(1)[0]


def _four_bytes(machine: DataUnpickler) -> int:
    return machine.number(_UNSIGNED_32)


def _written_key(machine: DataUnpickler) -> int:
    return int(machine.line())


def _global(machine: DataUnpickler) -> None:
    module = machine.line()
    machine.stack.append(machine.name(module, machine.line()))


def _stack_global(machine: DataUnpickler) -> None:
    name, module = machine.pop(), machine.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise TypeError("a name must be text")
    machine.stack.append(machine.name(module, name))


def _reduce(machine: DataUnpickler) -> None:
    arguments, maker = machine.pop(), machine.pop()
    machine.stack.append(machine.make(maker, arguments))


def _persistent(machine: DataUnpickler) -> None:
    machine.stack.append(machine.persistent(machine.pop()))


def _protocol(machine: DataUnpickler) -> None:
    version = machine.take(1)[0]
    if version > 5:
        machine.fail(f"a pickle protocol up to 5 was required: got {version}")


def _drop_items(machine: DataUnpickler) -> None:
    machine.items()


def _pop(machine: DataUnpickler) -> None:
    machine.stack.pop()


def _frame(machine: DataUnpickler) -> None:
    machine.number(_UNSIGNED_64)


OPERATIONS: list[Callable[[DataUnpickler], None] | None] = [None] * 256
for _code, _operation in {
    "(": _constant(_MARK),
    "0": _pop,
    "1": _drop_items,
    "2": lambda machine: machine.stack.append(machine.stack[-1]),
    "N": _constant(None),
    "\x88": _constant(True),
    "\x89": _constant(False),
    "I": _push(_written_int),
    "J": _push(lambda machine: machine.number(_SIGNED_32)),
    "K": _push(_one_byte),
    "M": _push(lambda machine: machine.number(_UNSIGNED_16)),
    "L": _push(lambda machine: int(machine.line().rstrip("L"))),
    "\x8a": _sized(None, _long),
    "\x8b": _sized(_SIGNED_32, _long),
    "F": _push(lambda machine: float(machine.line())),
    "G": _push(lambda machine: machine.number(_DOUBLE)),
    "S": _push(_written_string),
    "T": _sized(_SIGNED_32, _old_text),
    "U": _sized(None, _old_text),
    "V": _push(_written_text),
    "X": _sized(_UNSIGNED_32, _text),
    "\x8c": _sized(None, _text),
    "\x8d": _sized(_UNSIGNED_64, _text),
    "B": _sized(_UNSIGNED_32, _bytes),
    "C": _sized(None, _bytes),
    "\x8e": _sized(_UNSIGNED_64, _bytes),
    "\x96": _sized(_UNSIGNED_64, _bytearray),
    ")": _constant(()),
    "t": _push(lambda machine: tuple(machine.items())),
    "\x85": _tuple_of(1),
    "\x86": _tuple_of(2),
    "\x87": _tuple_of(3),
    "]": _push(lambda machine: []),
    "l": _push(lambda machine: machine.items()),
    "a": _append,
    "e": _appends,
    "}": _push(lambda machine: {}),
    "d": _push(lambda machine: {checked_key(k): v for k, v in _pairs(machine.items())}),
    "s": _set_item,
    "u": _set_items,
    "\x8f": _push(lambda machine: set()),
    "\x90": _add_items,
    "\x91": _push(lambda machine: frozenset(map(checked_key, machine.items()))),
    "p": _remember(_written_key),
    "q": _remember(_one_byte),
    "r": _remember(_four_bytes),
    "\x94": _remember(lambda machine: len(machine.memo)),
    "g": _recall(_written_key),
    "h": _recall(_one_byte),
    "j": _recall(_four_bytes),
    "c": _global,
    "\x93": _stack_global,
    "R": _reduce,
    "\x81": _reduce,
    "b": DataUnpickler.build,
    "Q": _persistent,
    "\x80": _protocol,
    "\x95": _frame,
}.items():
    OPERATIONS[ord(_code)] = _operation
