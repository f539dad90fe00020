"""facula's settings, in one table.

Takes environment variables and calls of `set`; gives the value of a setting.  Keeps true: every
environment variable that facula reads at run time stands in `SETTINGS` with its meaning; an unknown
name or an ill-formed value is an error that names the variable; the environment is read when a
setting is first asked for, so `os.environ` may still be changed after the import.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from facula.core.errors import fail

__all__ = ["SETTINGS", "Setting", "describe", "get", "reset", "set"]


def _count(text: str) -> int:
    if not text.strip().isdigit():
        raise ValueError("a number >= 0")
    return int(text)


def _jit_mode(text: str) -> str:
    if text not in ("0", "1", "error"):
        raise ValueError("0, 1 or error")
    return text


def _guard_mode(text: str) -> str:
    if text not in ("", "0", "1", "end", "begin"):
        raise ValueError("0, 1, end or begin")
    return text


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


class Setting(NamedTuple):
    """One setting: its environment variable, how to read it, its default and what it means."""

    variable: str
    parse: Callable[[str], Any]
    default: Any
    meaning: str


SETTINGS: dict[str, Setting] = {
    "isa": Setting(
        "FACULA_ISA", str, None, "kernel variant to load, instead of the richest that runs"
    ),
    "cache_dir": Setting("FACULA_CACHE_DIR", str, None, "folder of the disk cache"),
    "compiler": Setting("CC", str, None, "C compiler for kernels that are made on first use"),
    "cross_compiler": Setting(
        "FACULA_CROSS_CC", str, None, "C compiler for packages that run on another architecture"
    ),
    "jit": Setting(
        "FACULA_JIT",
        _jit_mode,
        "1",
        "kernels that are not prebuilt: 1 compiles them, 0 never does, error forbids to do without",
    ),
    "trace": Setting(
        "FACULA_TRACE", str, None, "folder into which the compiler writes what each pass gave"
    ),
    "passes": Setting(
        "FACULA_PASSES", str, None, "passes that the compiler leaves out, as -layout,-fusion"
    ),
    "store_secret": Setting(
        "FACULA_STORE_SECRET", str, None, "what the processes of a distributed program know"
    ),
    "allow_remote": Setting(
        "FACULA_ALLOW_REMOTE",
        _switch,
        False,
        "whether process groups on gloo, the engine of one machine, may span several",
    ),
    "shared_collectives": Setting(
        "FACULA_SHARED_COLLECTIVES",
        _switch,
        True,
        "whether collectives go through memory that the processes of a machine share",
    ),
    "nccl_library": Setting(
        "FACULA_NCCL_LIBRARY",
        str,
        None,
        "the path of libnccl.so.2 where it is not that of the wheel",
    ),
    "cuda_library": Setting(
        "FACULA_CUDA_LIBRARY", str, None, "the path of CUDA's driver where it is not the system's"
    ),
    "num_threads": Setting("FACULA_NUM_THREADS", _count, None, "threads of the pool"),
    "guard": Setting(
        "FACULA_GUARD",
        _guard_mode,
        "0",
        "memory beside guard pages: 1 ends each block at one, begin has it begin behind one; "
        "read when facula is imported",
    ),
    "full_tracebacks": Setting(
        "FACULA_FULL_TRACEBACKS",
        _switch,
        False,
        "whether `facula run` shows its own frames too in the traceback of an error",
    ),
    "logs": Setting("FACULA_LOGS", str, None, "what the compiler prints, by component or artifact"),
}

_values: dict[str, Any] = {}


def _setting(name: str) -> Setting:
    if name not in SETTINGS:
        fail(
            KeyError,
            "config",
            f"the setting must be one of {', '.join(SETTINGS)}",
            got=name,
            hint="facula.core.config.SETTINGS describes them",
        )
    return SETTINGS[name]


def get(name: str) -> Any:
    """The value of a setting: what `set` gave it, else its environment variable, else its
    default.
    """
    setting = _setting(name)
    if name in _values:
        return _values[name]
    text = os.environ.get(setting.variable)
    if text is None:
        return setting.default
    try:
        return setting.parse(text)
    except ValueError as error:
        fail(
            ValueError,
            "config",
            f"{setting.variable} must be {error}",
            got=repr(text),
            hint=f"unset {setting.variable} for the default",
        )


def set(name: str, value: Any) -> None:
    """Gives a setting a value for this process, whatever the environment says."""
    _setting(name)
    _values[name] = value


def reset(name: str | None = None) -> None:
    """Forgets what `set` gave one setting, or all of them."""
    if name is None:
        _values.clear()
    else:
        _setting(name)
        _values.pop(name, None)


def describe() -> str:
    """A table of all settings, their variables, present values and meanings."""
    shown = {name: get(name) for name in SETTINGS}
    if shown["store_secret"] is not None:
        shown["store_secret"] = "(set)"
    rows = [
        f"{name:<13} {s.variable:<20} {shown[name]!s:<10} {s.meaning}"
        for name, s in SETTINGS.items()
    ]
    return "\n".join(rows)
