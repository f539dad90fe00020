"""What a program under `facula run` shows of an error that it did not catch.

Takes the exception when it leaves the program.  Gives `of_the_program`, which has `sys.excepthook`,
whosever it is, show a traceback that begins in the program's own file.  Keeps true: of an error that
says itself what is wrong the last frames, facula's own, are left out and counted in a note; of any
other none are, since the fault may be in them; with FACULA_FULL_TRACEBACKS=1 nothing is left out.
The exception has its whole traceback back when it has been shown, for debuggers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, TracebackType

from facula.core import config
from facula.core.errors import is_own

__all__ = ["of_the_program"]

_RUNPY = "<frozen runpy>"


class of_the_program:
    """A context around the program: what leaves it is shown as that of the program alone.

    `entry` is the code of the function that runs the program.
    """

    def __init__(self, entry: CodeType) -> None:
        self.entry = entry

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or isinstance(error, SystemExit) or config.get("full_tracebacks"):
            return
        hook, entry = sys.excepthook, self.entry

        def show(kind: type[BaseException], error: BaseException, traceback: object) -> None:
            changed = [
                (each, each.__traceback__, getattr(each, "__notes__", None))
                for each in _chain(error)
            ]
            try:
                error.__traceback__ = _below(error.__traceback__, entry)
                for each, _, _ in changed:
                    _fold(each)
                hook(kind, error, error.__traceback__)
            finally:
                for each, whole, notes in changed:
                    each.__traceback__ = whole
                    _set_notes(each, notes)

        sys.excepthook = show


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exceptions that are shown with one: itself, causes, contexts, members of groups."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def _below(traceback: TracebackType | None, entry: CodeType) -> TracebackType | None:
    """The part of a traceback that belongs to the program which `entry` ran."""
    found = traceback
    while found is not None and found.tb_frame.f_code is not entry:
        found = found.tb_next
    if found is None:
        return traceback
    found = found.tb_next
    while found is not None and found.tb_frame.f_code.co_filename == _RUNPY:
        found = found.tb_next
    return found


def _explains_itself(error: BaseException) -> bool:
    """Whether the message, or the type, is facula's own way to say what is wrong, or it is that a
    module or an object has no such attribute.
    """
    return (
        "\nhint: " in str(error)
        or is_own(type(error).__module__)
        or (isinstance(error, AttributeError) and _last_function(error) == "__getattr__")
    )


def _last_function(error: BaseException) -> str:
    """The name of the function that raised."""
    traceback, name = error.__traceback__, ""
    while traceback is not None:
        name, traceback = traceback.tb_frame.f_code.co_name, traceback.tb_next
    return name


def _fold(error: BaseException) -> None:
    """Leave facula's own frames out at the end of an error that explains itself."""
    if not _explains_itself(error):
        return
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    kept = len(frames)
    while kept and _is_frame_of_ours(frames[kept - 1]):
        kept -= 1
    if kept == len(frames):
        return
    for each in reversed(frames[:kept]):
        traceback = TracebackType(traceback, each.tb_frame, each.tb_lasti, each.tb_lineno)
    error.__traceback__ = traceback
    left_out = len(frames) - kept
    _set_notes(
        error,
        [
            *getattr(error, "__notes__", ()),
            f"(frames of facula left out: {left_out}; FACULA_FULL_TRACEBACKS=1 shows them)",
        ],
    )


def _is_frame_of_ours(traceback: TracebackType) -> bool:
    frame = traceback.tb_frame
    name = frame.f_code.co_filename
    return name.startswith("<facula") or is_own(frame.f_globals.get("__name__"))


def _set_notes(error: BaseException, notes: list[str] | None) -> None:
    if notes is None:
        error.__dict__.pop("__notes__", None)
    else:
        error.__notes__ = notes
