"""Process replay: everything that the compiler writes for a corpus, compared with another commit's.

    python tools/replay.py record DIRECTORY [--corpus kernels,samples,networks,programs] [--programs 500]
    python tools/replay.py compare OLD NEW [--lines 200]
    python tools/replay.py against COMMIT [--every 5]

Takes: a corpus by name (`replay_record`), and for `against` a commit, which is checked out, built where it
has to be, and recorded beside this tree, each by its own recorder.
Gives: what differs as a unified diff, and how much. Exit status 1: `compare` saw a difference; `against` saw
one although the message of this tree's last commit begins with the word "refactor".
Keeps true: the tree at hand is not touched.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFACTOR = re.compile(r"refactor", re.IGNORECASE)
#: what prebuilt kernels and the core are made of
BUILT_FROM = re.compile(
    r"^(setup\.py|pyproject\.toml|tools/(units|build_kernels)\.py|src/facula/(core|codegen|ops|runtime)/)"
)


def digests(record: Path) -> dict[str, str]:
    """Path in a record -> digest of its text."""
    lines = (record / "digests.txt").read_text().splitlines()
    return {path: digest for digest, _, path in (line.partition("  ") for line in lines)}


def differences(old: Path, new: Path) -> Iterator[list[str]]:
    """For each case that differs, its unified diff."""
    before, after = digests(old), digests(new)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            left = (old / name).read_text().splitlines() if name in before else []
            right = (new / name).read_text().splitlines() if name in after else []
            names = {"fromfile": f"old/{name}", "tofile": f"new/{name}"}
            yield list(difflib.unified_diff(left, right, **names, n=2, lineterm=""))


def compare(old: Path, new: Path, most: int) -> int:
    """Print what differs between two records, at most so many lines; gives how many cases do."""
    cases = len(digests(old).keys() | digests(new).keys())
    count = added = removed = shown = 0
    for diff in differences(old, new):
        count += 1
        added += sum(line.startswith("+") for line in diff) - 1
        removed += sum(line.startswith("-") for line in diff) - 1
        print("\n".join(diff[: max(0, most - shown)]), end="\n" * (shown < most))
        shown += len(diff)
    if shown > most:
        print(f"... {shown - most} more lines (--lines)")
    print(f"replay: {count} of {cases} cases differ, +{added} -{removed} lines")
    return count


def git(*words: str) -> str:
    """What git says of this repository."""
    told = subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True)
    return told.stdout


@contextlib.contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """The tree of a commit, built; what is built here serves it where it is made of the same."""
    tree = folder / "tree"
    git("worktree", "add", "-q", "--detach", str(tree), commit)
    try:
        for path in git("ls-files", "-o", "-i", "--exclude-standard", "src", "build").splitlines():
            if not path.endswith((".pyc", ".pyi", "py.typed")):
                (tree / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, tree / path)
        changed = git("diff", "--name-only", commit).splitlines()
        if any(map(BUILT_FROM.match, changed)):
            venv = folder / "venv"  # pip brings what the build needs
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            build = [str(venv / "bin" / "pip"), "install", "-q", "--no-deps", "-e", str(tree)]
            subprocess.run(build, check=True)
        yield tree
    finally:
        git("worktree", "remove", "--force", str(tree))


def record(tree: Path, directory: Path, options: list[str]) -> None:
    """Record a tree by its own recorder, which knows where its compiler can be heard."""
    tool = tree / "tools" / "replay_record.py"
    tool = tool if tool.exists() else ROOT / "tools" / "replay_record.py"
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    subprocess.run([sys.executable, tool, directory, *options], env=environment, check=True)


def against(commit: str, options: list[str], most: int) -> int:
    """Record a commit and this tree; 1 if they differ and should not."""
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder) / "old", Path(folder) / "new"
        with checked_out(commit, Path(folder)) as tree:
            record(tree, old, options)
        record(ROOT, new, options)
        differing = compare(old, new, most)
    subject = git("log", "-1", "--format=%s").strip()
    if differing and REFACTOR.match(subject):
        print(f"replay: no difference was allowed, since this is a refactoring: {subject}")
        return 1
    return 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("record", "compare", "against"))
    parser.add_argument("names", nargs="+", help="a directory; two; or a commit")
    parser.add_argument("--lines", type=int, default=200, help="lines of differences to print")
    options, others = parser.parse_known_args()  # the others are the recorder's
    if options.action == "record":
        record(ROOT, Path(options.names[0]), others)
        return 0
    if options.action == "compare":
        old, new = map(Path, options.names)
        return min(compare(old, new, options.lines), 1)
    return against(options.names[0], others, options.lines)


if __name__ == "__main__":
    sys.exit(main())
