"""What compiled functions do when no segment serves a call, for the whole process.

Takes: a stance by name, and for the default one a backend that serves instead of each function's own.
Gives: what the driver asks at a miss.
Keeps true: segments of one shelf (segments of the ordinary backends, of a forced backend, or none at
all) are never found under another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from facula.capture.errors import RecompileError
from facula.core.errors import fail

STANCES = (
    "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile",
    "aot_eager_then_compile",
)  # fmt: skip
#: slot: name -> (backend, whether it compiles for fixed sizes)
BACKEND_BY_NAME: list[Callable[[str], tuple[Any, bool]] | None] = [None]


class Stance(NamedTuple):
    """A stance, and the backend that it forces."""

    name: str = "default"
    backend: tuple[Any, bool] | None = None

    @property
    def shelf(self) -> Any:
        """Segments that are captured under stances with one shelf serve each other."""
        if self.backend is not None:
            return self.backend[0]
        return self.name if self.name == "force_eager" else None


CURRENT = [Stance()]


def stance_of(name: str, backend: Any) -> Stance:
    """The stance of a name and a backend (a name or a function, or None)."""
    if name not in STANCES:
        fail(
            RuntimeError,
            "set_stance",
            f"a stance out of {', '.join(STANCES)} was required (invalid torch.compile stance)",
            repr(name),
            hint="'default' compiles as usual",
        )
    if backend is None:
        return Stance(name)
    if name != "default":
        fail(
            RuntimeError,
            "set_stance",
            "the default stance was required with force_backend (non-default stance cannot have "
            "force_backend set)",
            repr(name),
            hint="call set_stance('default', force_backend=...)",
        )
    find: Any = BACKEND_BY_NAME[0]
    return Stance(name, find(backend))


def is_native(place: Any, values: list[Any]) -> bool:
    """Whether a state that no segment serves runs in Python.

    Raises:
        RecompileError: the stance is that there are no misses.
    """
    name = CURRENT[0].name
    if name in ("force_eager", "eager_on_recompile"):
        return True
    if name == "eager_then_compile" and place.point is None and not place.begun:
        place.begun = True
        place.history.note(place.slots, values)
        return True
    return False


def check_recompile(place: Any, cause: str) -> None:
    """Raise where the stance allows no capture."""
    if CURRENT[0].name == "fail_on_recompile":
        code = place.code
        raise RecompileError(
            "[compile] a captured segment for this call was required: Detected recompile when "
            f"torch.compile stance is 'fail_on_recompile'. filename: '{code.co_filename}', function "
            f"name: '{code.co_name}', line number: {code.co_firstlineno}"
            + (f"\n    triggered by: {cause}" if cause else "")
        )


def backend_of(session: Any, place: Any) -> tuple[Any, bool]:
    """The backend of the segment that is captured now, and whether it compiles for fixed sizes."""
    stance = CURRENT[0]
    if stance.backend is not None:
        return stance.backend
    if stance.name == "aot_eager_then_compile" and not place.entries:
        find: Any = BACKEND_BY_NAME[0]
        return find("aot_eager")
    return session.backend, session.specialises
