"""`tools/replay.py` says what differs between two records, and records do not depend on the process."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import replay  # noqa: E402


def recorded(folder: Path, cases: dict[str, str]) -> Path:
    """A record with these cases."""
    folder.mkdir()
    lines = []
    for name, text in cases.items():
        (folder / name).write_text(text)
        lines.append(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n")
    (folder / "digests.txt").write_text("".join(lines))
    return folder


def test_differences_are_shown_and_counted(tmp_path, capsys):
    old = recorded(tmp_path / "old", {"same": "a\n", "other": "a\nb\nc\n", "gone": "x\n"})
    new = recorded(tmp_path / "new", {"same": "a\n", "other": "a\nB\nc\n", "came": "y\nz\n"})
    assert replay.compare(old, new, 100) == 3
    printed = capsys.readouterr().out
    assert printed.endswith("replay: 3 of 4 cases differ, +3 -2 lines\n")
    assert "-b\n+B\n" in printed and "--- old/gone" in printed and "+z" in printed
    assert replay.compare(old, old, 100) == 0
    assert replay.compare(old, new, 2) == 3
    assert "more lines (--lines)" in capsys.readouterr().out


def test_a_record_is_the_same_in_every_process_and_hears_of_a_changed_pass(tmp_path):
    planted = (
        "import sys, replay_record, facula.compiler.pipeline as p; "
        "p.PASSES['join common calls'].function = lambda graph: 0; sys.argv[1:] = sys.argv[2:]; replay_record.main()"
    )
    tool = str(ROOT / "tools" / "replay_record.py")
    for name, command in (("a", [tool]), ("b", [tool]), ("c", ["-c", planted, "-"])):
        options = ["--corpus", "networks,programs,samples", "--every", "60", "--programs", "120"]
        environment = {
            **os.environ, "PYTHONHASHSEED": str(ord(name)), "PYTHONPATH": str(ROOT / "tools"),
        }  # fmt: skip
        subprocess.run(
            [sys.executable, *command, tmp_path / name, *options], env=environment, check=True
        )
    assert not list(replay.differences(tmp_path / "a", tmp_path / "b"))
    assert list(replay.differences(tmp_path / "a", tmp_path / "c"))
    stages = ("graph_code", "guards", "left to Python", "aot_graphs", "aot_joint_graph",
              "graph to compile", "fusion", "schedule", "C", "numbers", "wrapper")  # fmt: skip
    texts = "".join(path.read_text() for path in (tmp_path / "a").rglob("*.txt"))
    assert all(f"==== {stage}\n" in texts for stage in stages)


def test_what_calls_itself_a_refactoring_is_held_to_it():
    assert replay.REFACTOR.match("Refactor: one printer")
    assert not replay.REFACTOR.match("A pass that joins sums; refactoring comes later")
