"""Programs that are run: what they read, say and leave, and where they are found."""

import os
import sys

import pytest

from facula.runtime import programs


def python(text):
    return programs.run([sys.executable, "-c", text])


def test_status_and_errors():
    text = "import sys; print('unseen'); print('größer', file=sys.stderr); sys.exit(3)"
    assert programs.run([sys.executable, "-X", "utf8", "-c", text]) == (3, "größer\n")
    assert python("pass") == (0, "")


def test_more_errors_than_a_pipe_holds():
    status, errors = python("import sys; sys.stderr.write('x' * 300000)")
    assert (status, len(errors)) == (0, 300000)


def test_a_signal_is_a_negative_status():
    assert python("import os; os.kill(os.getpid(), 9)") == (-9, "")


def test_a_program_reads_nothing():
    assert python("import sys; sys.exit(len(sys.stdin.read()))") == (0, "")


def test_a_program_is_ended_by_a_broken_pipe():
    # Python itself ignores the signal, which would be inherited
    show = "grep SigIgn /proc/self/status >&2"
    if os.path.exists("/proc/self/status"):
        _, errors = programs.run(["/bin/sh", "-c", show])
        assert not int(errors.split()[1], 16) >> 12 & 1


def test_a_program_inherits_no_open_file(tmp_path):
    with open(tmp_path / "file", "w") as file:
        text = f"import os\ntry: os.fstat({file.fileno()})\nexcept OSError: raise SystemExit(7)"
        assert python(text)[0] == 7


def test_a_program_that_is_not_there():
    with pytest.raises(FileNotFoundError):
        programs.run(["no-such-program"])


def test_programs_are_found_in_the_order_of_the_path(tmp_path, monkeypatch):
    folders = [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()
        (folder / "tool").write_text("#!/bin/sh\n")
    folders[1].joinpath("tool").chmod(0o755)
    folders[2].joinpath("tool").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    assert programs.find_program("tool") == str(folders[1] / "tool")
    assert programs.find_program("first") is None
    assert programs.find_program(str(folders[2] / "tool")) == str(folders[2] / "tool")
    assert programs.find_program(str(folders[0] / "tool")) is None
    monkeypatch.setenv("PATH", "")
    assert programs.find_program("tool") is None
