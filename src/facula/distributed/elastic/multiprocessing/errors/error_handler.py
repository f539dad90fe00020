"""`ErrorHandler`: writes exceptions to files that an agent reads.

Takes: exceptions, and the environment variable TORCHELASTIC_ERROR_FILE. Gives: files in JSON with a message,
a traceback and a time.
Keeps true: a file is whole or not there; a file that can not be written is told, and hides no exception.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import tempfile
import time
import traceback
from typing import Any

from facula.core.logs import get_logger

__all__ = ["ErrorHandler"]


class ErrorHandler:
    """Writes exceptions to the file that TORCHELASTIC_ERROR_FILE names.

    Example:
        >>> from facula.distributed.elastic.multiprocessing.errors import ErrorHandler
        >>> ErrorHandler().record_exception(ValueError("no file is named"))
    """

    def _get_error_file_path(self) -> str | None:
        return os.environ.get("TORCHELASTIC_ERROR_FILE") or None

    def initialize(self) -> None:
        """Let a crash of the process show its threads' stacks."""
        with contextlib.suppress(Exception):  # an error output that is no file
            faulthandler.enable(all_threads=True)

    def record_exception(self, e: BaseException) -> None:
        """Write an exception, with its traceback and the time."""
        path = self._get_error_file_path()
        if path is None:
            return
        stack = "".join(traceback.format_exception(type(e), e, e.__traceback__))
        extra = {"py_callstack": stack, "timestamp": str(int(time.time()))}
        said = {"message": f"{type(e).__name__}: {e}", "extraInfo": extra}
        self._write(path, {"message": said})

    def override_error_code_in_rootcause_data(
        self, rootcause_error_file: str, rootcause_error: dict[str, Any], error_code: int = 0
    ) -> None:
        """Put the exit status of the worker into what its file says."""
        said = rootcause_error.get("message")
        if isinstance(said, dict):
            said["errorCode"] = error_code
        else:
            get_logger("distributed").warning(
                "%s has no place for the exit status %d", rootcause_error_file, error_code
            )

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Make the file of a worker the file of this process, which started it."""
        try:
            with open(rootcause_error_file, encoding="utf-8", errors="replace") as file:
                found = json.load(file)
        except (OSError, ValueError, RecursionError) as error:
            get_logger("distributed").error("%s can not be read: %s", rootcause_error_file, error)
            return
        if error_code and isinstance(found, dict):
            self.override_error_code_in_rootcause_data(rootcause_error_file, found, error_code)
        path = self._get_error_file_path()
        if path is None:
            get_logger("distributed").error("the first failure: %s", json.dumps(found, indent=2))
        else:
            self._write(path, found)

    def _write(self, path: str, content: object) -> None:
        folder, name = os.path.split(os.path.abspath(path))
        temporary = None
        try:
            os.makedirs(folder, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=f".{name[:64]}.", dir=folder)
            with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(content, file)
            os.replace(temporary, path)
        except OSError as error:
            get_logger("distributed").error("the error file %s can not be written: %s", path, error)
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
