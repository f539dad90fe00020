"""Fake functions from profiles: what an operator's results look like, for arguments of some ranks and dtypes.

Takes: profiles (`OpProfile`) by the name of an overload, in memory or as YAML. Gives: a block in which the operators
have fake functions that follow them.
Keeps true: the sizes of a result are unknown numbers, its rank, dtype, device and layout are the profile's; arguments
that no profile describes are an error. Reading makes no objects but these.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import TABLE
from facula.torch_api.alias.version import API_VERSION

__all__ = [
    "MissingOpProfile",
    "OpProfile",
    "TensorMetadata",
    "generate_yaml_from_profiles",
    "load_op_profiles",
    "read_profiles_from_yaml",
    "save_op_profiles",
    "unsafe_generate_fake_kernels",
]

_OLDEST = (2, 8)  # of PyTorch, whose profiles have this form


class MissingOpProfile(RuntimeError):
    """No profile describes the arguments of a call."""


@dataclass(frozen=True)
class TensorMetadata:
    """What a profile says of a tensor."""

    rank: int
    dtype: core.dtype
    device: core.device
    layout: core.layout

    @staticmethod
    def maybe_from_tensor(t: Any) -> TensorMetadata | None:
        """That of a tensor; None for anything else."""
        if not isinstance(t, core.Tensor):
            return None
        return TensorMetadata(t.dim(), t.dtype, t.device, t.layout)


@dataclass
class OpProfile:
    """Arguments, and the results for them: a tensor's metadata or None at each place."""

    args_profile: tuple[TensorMetadata | None, ...]
    out_profile: TensorMetadata | tuple[TensorMetadata, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpProfile):
            return False
        same = self.args_profile == other.args_profile
        return same and self.out_profile == other.out_profile

    def __hash__(self) -> int:
        return hash((self.args_profile, self.out_profile))


def _made(out: Any) -> Any:
    """A result with the metadata of a profile, of unknown sizes."""
    if isinstance(out, tuple):
        return tuple(_made(each) for each in out)
    context = facula.library.get_ctx()
    sizes = [context.new_dynamic_size() for _ in range(out.rank)]
    return facula.empty(sizes, dtype=out.dtype, device=out.device)


def _function(qualname: str, profiles: Any) -> Any:
    known = {p.args_profile: p.out_profile for p in profiles}

    def fake(*args: Any, **kwargs: Any) -> Any:
        given = tuple(TensorMetadata.maybe_from_tensor(a) for a in (*args, *kwargs.values()))
        # the function runs on tensors of the meta device, wherever those are that they stand for
        found = [out for have, out in known.items() if _alike(have, given)]
        if not found:
            fail(
                MissingOpProfile,
                qualname,
                f"arguments that a profile describes were required (No fake kernel was found for {qualname})",
                given,
                hint="run the program on such arguments, and add their profile",
            )
        return _made(found[0])

    return fake


def _alike(have: Any, given: Any) -> bool:
    if len(have) != len(given):
        return False
    return all(
        (a is None) == (b is None)
        and (a is None or (a.rank, a.dtype, a.layout) == (b.rank, b.dtype, b.layout))
        for a, b in zip(have, given, strict=True)
    )


@contextlib.contextmanager
def unsafe_generate_fake_kernels(op_profiles: dict[str, Any]) -> Iterator[None]:
    """A block in which operators have the fake functions that profiles describe.

    Args:
        op_profiles: profiles by the name of an overload, as ``mylib.foo.default``

    Raises:
        RuntimeError: there is no such operator.
    """
    before: list[tuple[Any, Any]] = []
    for name, profiles in op_profiles.items():
        space, _, rest = name.partition(".")
        qualname = f"{space}::{rest.removesuffix('.default')}"
        operator = TABLE.get(qualname)
        if operator is None:
            fail(RuntimeError, "unsafe_generate_fake_kernels", "an operator that is defined was required", name,
                 hint="define it with facula.library first")  # fmt: skip
        kernels = operator.definition.kernels
        before.append((kernels, kernels.get("meta")))
        kernels["meta"] = _function(qualname, profiles)
    try:
        yield
    finally:
        for kernels, function in before:
            del kernels["meta"]
            if function is not None:
                kernels["meta"] = function


# ------------------------------------------------------------------ files


def _yaml() -> Any:
    try:
        # lazily: another package, which few programs need
        return import_module("yaml")
    except ImportError as error:
        return fail(
            ImportError,
            "fake_profile",
            "the package pyyaml was required",
            str(error),
            hint="pip install pyyaml",
        )


def _word(value: object) -> str:
    return str(value).rpartition(".")[2]


def _told(x: TensorMetadata | None) -> Any:
    if x is None:
        return None
    words = {"dtype": _word(x.dtype), "device": str(x.device), "layout": _word(x.layout)}
    return {"rank": x.rank, **words}


def generate_yaml_from_profiles(op_profiles: dict[str, Any]) -> str:
    """Profiles as YAML.

    Args:
        op_profiles: profiles by the name of an overload
    """

    def outs(out: Any) -> Any:
        return [_told(each) for each in out] if isinstance(out, tuple) else _told(out)

    listed = {
        name: [
            {"args_profile": [_told(a) for a in p.args_profile], "out_profile": outs(p.out_profile)}
            for p in profiles
        ]
        for name, profiles in op_profiles.items()
    }
    text: str = _yaml().safe_dump(
        {"torch_version": API_VERSION, "operators": listed}, sort_keys=False
    )
    return text


def _named(name: object, kind: type) -> Any:
    found = getattr(core, str(name), None)
    if not isinstance(found, kind):
        fail(ValueError, "read_profiles_from_yaml", f"the name of a {kind.__name__} was required", repr(name),
             hint="for example float32, or strided")  # fmt: skip
    return found


def _read(x: Any) -> Any:
    if x is None:
        return None
    layout, dtype = _named(x["layout"], core.layout), _named(x["dtype"], core.dtype)
    return TensorMetadata(int(x["rank"]), dtype, core.device(x["device"]), layout)


def read_profiles_from_yaml(yaml_str: str) -> dict[str, set[OpProfile]]:
    """The profiles in a text.

    Args:
        yaml_str: what `generate_yaml_from_profiles` gave

    Raises:
        RuntimeError: it was written by PyTorch before 2.8.
        ValueError: a name means nothing.
    """
    loaded = _yaml().safe_load(yaml_str)
    version = str(loaded["torch_version"])
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) < _OLDEST:
        fail(RuntimeError, "read_profiles_from_yaml", "profiles of version 2.8 or later were required (Unable to load "
             "outdated profile)", version, hint="write the profiles again")  # fmt: skip

    def outs(out: Any) -> Any:
        return tuple(_read(each) for each in out) if isinstance(out, list) else _read(out)

    return {
        name: {
            OpProfile(tuple(_read(a) for a in p["args_profile"]), outs(p["out_profile"]))
            for p in profiles
        }
        for name, profiles in loaded["operators"].items()
    }


def save_op_profiles(op_profiles: dict[str, Any], f: Any) -> None:
    """Write profiles to a file.

    Args:
        op_profiles: profiles by the name of an overload
        f: a path, or an open file of bytes
    """
    text = generate_yaml_from_profiles(op_profiles)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        f.write(text.encode())


def load_op_profiles(f: Any) -> dict[str, set[OpProfile]]:
    """The profiles in a file.

    Args:
        f: a path, or an open file of bytes
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, encoding="utf-8") as file:
            return read_profiles_from_yaml(file.read())
    return read_profiles_from_yaml(f.read().decode())
