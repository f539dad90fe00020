"""Shows what a pickle holds, without making it: `python -m facula.utils.show_pickle FILE`.

Takes: the name of a pickle, or ``archive@member`` for one in a zip archive (`member` may have ``*``, as in
``model.pt@*/data.pkl``). Gives: its content as text: plain data as it is, everything else as the name of its
class with arguments and state.
Keeps true: no class is imported and no function of the file is called, so that any file may be looked at; neither
text nor memory grows beyond bounds, whatever a few bytes say (lists that hold one list many times, members that
unpack to gigabytes).
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import pickle
import pprint
import sys
import zipfile
from typing import IO, Any

from facula.core.errors import fail

#: the reader that is written in Python: what it does for an object can be changed
_PYTHONS: Any = pickle._Unpickler

#: so many values, letters of texts counted by lines, are shown
MOST_VALUES = 1 << 20
#: so many bytes of an archive's member are unpacked
MOST_BYTES = 1 << 28

__all__ = ["DumpUnpickler", "FakeClass", "FakeObject", "main"]


class FakeObject:
    """An object of a pickle: the name of its class, what it was made with and its state.

    Args:
        module: where the class is.
        name: its name.
        args: what it was called with.

    Example:
        >>> from facula.utils.show_pickle import FakeObject
        >>> FakeObject("some.module", "Thing", (1, "two"))
        some.module.Thing(1, 'two')
    """

    def __init__(self, module: str, name: str, args: tuple[Any, ...]) -> None:
        self.module, self.name, self.args = module, name, args
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: object, value: object) -> None:
        self._content({}).__setitem__(key, value)

    def append(self, value: object) -> None:
        """An entry of an object that is like a list."""
        self._content([]).append(value)

    def extend(self, values: object) -> None:
        """Entries of an object that is like a list."""
        self._content([]).extend(values)

    def add(self, value: object) -> None:
        """An entry of an object that is like a set."""
        self._content([]).append(value)

    def _content(self, empty: Any) -> Any:
        if not isinstance(self.state, type(empty)):
            self.state = empty
        return self.state

    def __repr__(self) -> str:
        state = "" if self.state is None else f"(state={self.state!r})"
        return f"{self.module}.{self.name}({', '.join(map(repr, self.args))}){state}"


class FakeClass:
    """A class or function of a pickle, which makes a `FakeObject` when it is called.

    Args:
        module: where it is.
        name: its name.

    Example:
        >>> from facula.utils.show_pickle import FakeClass
        >>> FakeClass("some.module", "Thing")(1)
        some.module.Thing(1)
    """

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> FakeObject:
        return FakeObject(self.module, self.name, args)

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"


class DumpUnpickler(_PYTHONS):
    """Reads a pickle with stand-ins for everything that is not plain data.

    Args:
        file: a file that is read as bytes.
        catch_invalid_utf8: texts that are none are read as bytes.

    Example:
        >>> import io, pickle, decimal
        >>> from facula.utils.show_pickle import DumpUnpickler
        >>> DumpUnpickler(io.BytesIO(pickle.dumps([1, decimal.Decimal('0.5')]))).load()
        [1, decimal.Decimal('0.5')]
    """

    dispatch = dict(_PYTHONS.dispatch)

    def __init__(
        self, file: IO[bytes], *, catch_invalid_utf8: bool = False, **keywords: object
    ) -> None:
        errors = "backslashreplace" if catch_invalid_utf8 else "strict"
        super().__init__(file, **{"errors": errors, **keywords})

    def find_class(self, module: str, name: str) -> FakeClass:
        """The stand-in of a class."""
        return FakeClass(module, name)

    def persistent_load(self, saved_id: object) -> FakeObject:
        """The stand-in of what lies outside the pickle, as the storages of tensors do."""
        return FakeObject("pers", "obj", (saved_id,))

    def load_newobj(self) -> None:
        """`NEWOBJ`: an object of a class, made without its `__init__`."""
        args = self.stack.pop()
        self.stack.append(self.stack.pop()(*args))

    def load_newobj_ex(self) -> None:
        """`NEWOBJ_EX`: the same with arguments by name."""
        names = self.stack.pop()
        args = self.stack.pop()
        self.stack.append(self.stack.pop()(*args, *([names] if names else [])))

    def get_extension(self, code: int) -> None:
        """An entry of the registry of this process, which says nothing about the file."""
        self.append(FakeClass("extension", str(code)))

    dispatch[pickle.NEWOBJ[0]] = load_newobj
    dispatch[pickle.NEWOBJ_EX[0]] = load_newobj_ex

    @classmethod
    def dump(cls, in_stream: IO[bytes], out_stream: IO[str]) -> Any:
        """Write what a pickle holds as text.

        Args:
            in_stream: the pickle.
            out_stream: where the text goes.
        """
        value = cls(in_stream).load()
        _check_extent(value)
        try:
            pprint.pprint(value, stream=out_stream)
        except RecursionError:
            fail(RuntimeError, "show_pickle", "values that are not nested too deeply were required",
                 f"more than {sys.getrecursionlimit() // 4} levels, or an object that holds itself",
                 hint="pickletools.dis(data) shows the instructions of any pickle")  # fmt: skip
        return value


def _parts(value: Any) -> list[Any]:
    """What is shown inside of a value."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    return [*value.args, value.state] if isinstance(value, FakeObject) else []


def _own_extent(value: object) -> int:
    return 1 + len(value) // 80 if isinstance(value, (str, bytes, bytearray)) else 1


def _check_extent(value: object) -> None:
    """Refuse what would be too long to show: what is held in several places is shown in each."""
    extents: dict[
        int, int
    ] = {}  # of each object; 1 while its parts are counted, so that circles end
    waiting = [(value, False)]
    while waiting:
        one, counted = waiting.pop()
        parts = _parts(one)
        if counted:
            extents[id(one)] = total = _own_extent(one) + sum(extents[id(p)] for p in parts)
            if total > MOST_VALUES:
                fail(RuntimeError, "show_pickle", f"at most {MOST_VALUES} values to show were required",
                     "more: lists that hold one another many times",
                     hint="pickletools.dis(data) shows the instructions of any pickle")  # fmt: skip
        elif id(one) not in extents:
            extents[id(one)] = 1
            waiting.append((one, True))
            waiting.extend((p, False) for p in parts)


def _read(text: str) -> tuple[str, bytes]:
    """The bytes of a file, or of the one member of an archive that a pattern names."""
    path, at, member = text.partition("@")
    if not at:
        with open(path, "rb") as file:
            return path, file.read()
    with zipfile.ZipFile(path) as archive:
        found = [name for name in archive.namelist() if fnmatch.fnmatchcase(name, member)]
        if len(found) != 1:
            fail(RuntimeError, "show_pickle", f"one member like {member!r} was required",
                 f"{len(found)} in {path}: {', '.join(found or archive.namelist())[:200]}",
                 hint="name one, as model.pt@model/data.pkl")  # fmt: skip
        size = archive.getinfo(found[0]).file_size
        if size > MOST_BYTES:
            fail(RuntimeError, "show_pickle", f"a member of at most {MOST_BYTES} bytes was required",
                 f"{size} bytes in {found[0]}", hint="unpack it first, then show the file")  # fmt: skip
        return f"{path}@{found[0]}", archive.read(found[0])


def main(argv: list[str], output_stream: IO[str] | None = None) -> int | None:
    """The program.

    Args:
        argv: its name, then names of files.
        output_stream: where the text goes; the standard output if None.

    Example:
        >>> import io, pickle, tempfile, os
        >>> from facula.utils.show_pickle import main
        >>> path = os.path.join(tempfile.mkdtemp(), "x.pkl")
        >>> with open(path, "wb") as file:
        ...     pickle.dump({"a": 1}, file)
        >>> main(["show_pickle", path])
        {'a': 1}
    """
    parser = argparse.ArgumentParser(
        prog=argv[0], description="Show what a pickle holds, without making it."
    )
    parser.add_argument("files", nargs="+", help="a pickle, or archive@member")
    stream = output_stream or sys.stdout
    asked = parser.parse_args(argv[1:])
    for text in asked.files:
        name, data = _read(text)
        if len(asked.files) > 1:
            print(f"{name}:", file=stream)
        DumpUnpickler.dump(io.BytesIO(data), stream)
    return None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
