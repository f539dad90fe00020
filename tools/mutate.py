"""Whether the tests notice: changes one constant, sign or index at a time and runs what reaches it.

    python tools/mutate.py draw --count 200 --seed 1 --work build/mutation
    python tools/mutate.py map --work build/mutation            # all tests once, with probes
    python tools/mutate.py run --work build/mutation --least 95

Takes: the checkout, built in place; random places of definitions, templates and passes.
Gives: a line for each change (noticed, and by what; or not), the share that was noticed, and
`results.json`; exit status 1 when the share is below `--least`.
Keeps true: the checkout is not touched, changes are made in a copy with its own kernels and its own
compile cache; a change counts as noticed when a test fails, hangs or cannot be collected, or when
the kernels no longer build; a change that no test reaches counts as not noticed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mutation_places
from mutation_places import Place

ROOT = Path(__file__).resolve().parent.parent
#: tests of the first and of the second run for one change
FEW, MANY = 30, 200
#: a run hangs when it takes so many seconds (tests may compile) beyond so many times those of the map
PATIENCE, SLOWER = 600, 5
COPIED = ("src", "tests", "tools", "docs", "examples", "pyproject.toml", "README.md", "setup.py")


def dated_seed() -> int:
    """The day, as a number: the same for all runs of one day."""
    return int(time.strftime("%Y%m%d", time.gmtime()))


def draw(arguments: argparse.Namespace) -> None:
    """Writes the places of this run."""
    arguments.work.mkdir(parents=True, exist_ok=True)
    places = mutation_places.draw(ROOT, arguments.count, arguments.seed)
    text = json.dumps([place.data() for place in places], indent=1)
    (arguments.work / "places.json").write_text(text)
    print(f"{len(places)} places, seed {arguments.seed}: {arguments.work / 'places.json'}")


def probing(work: Path) -> dict[str, str]:
    """The environment of a test run that makes the map."""
    return {
        "MUTATION_PLACES": str((work / "places.json").resolve()),
        "MUTATION_MAP": str((work / "map.json").resolve()),
        "PYTEST_PLUGINS": "mutation_probe",
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(ROOT / "tools"), os.environ.get("PYTHONPATH")])
        ),
    }


def make_map(arguments: argparse.Namespace) -> None:
    """Runs the tests once, with a probe at every place."""
    command = [sys.executable, "-m", "pytest", *arguments.tests]
    environment = os.environ | probing(arguments.work)
    with tempfile.TemporaryDirectory() as cache:
        environment["FACULA_CACHE_DIR"] = cache  # what comes from a cache is not generated
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    sys.exit(status)


@dataclass
class Verdict:
    """What became of one change."""

    place: Place
    noticed: bool
    by: str
    seconds: float

    def __str__(self) -> str:
        word = "noticed " if self.noticed else "SURVIVED"
        return f"{word} {self.place}  [{self.by}, {self.seconds:.0f} s]"


class Copy:
    """A copy of the checkout in which one place at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in COPIED:
            subprocess.run(["cp", "-al", str(ROOT / name), str(folder / name)], check=True)
        kernels = ROOT / "build" / "kernels"
        if kernels.exists():
            (folder / "build").mkdir()
            subprocess.run(["cp", "-al", str(kernels), str(folder / "build")], check=True)
        self._own(folder / "src" / "facula" / "_kernels")

    def _own(self, kernels: Path) -> None:
        """Real copies of what a build writes over."""
        shutil.copytree(kernels, self.folder / "kernels")
        for stamp in (self.folder / "build").glob("kernels/*/*"):
            if stamp.suffix != ".o":
                content = stamp.read_bytes()
                stamp.unlink()
                stamp.write_bytes(content)

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder / "src"), str(self.folder / "tools")])
        return os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def write(self, path: str, text: str) -> None:
        """A new file in place of one that the checkout shares."""
        target = self.folder / path
        target.unlink()
        target.write_text(text)

    def kernel_texts(self) -> dict[str, str] | str:
        """The C of every unit; or why it cannot be written."""
        program = (
            "import json, sys\nfrom build_kernels import collect, wanted_variants\n"
            "print(json.dumps({u.name: u.text for u in collect(wanted_variants('native')[-1])}))"
        )
        done = self.run([sys.executable, "-c", program], {"FACULA_BUILDING": "1"}, 120)
        return json.loads(done.stdout) if done.returncode == 0 else done.stdout[-300:]

    def build(self) -> str:
        """Builds the kernels anew; gives why they do not build."""
        output = self.folder / "src" / "facula" / "_kernels"
        for old in output.glob("*"):
            old.unlink()
        command = [sys.executable, "tools/build_kernels.py", "--output", str(output)]
        command += ["--work", str(self.folder / "build" / "kernels")]
        done = self.run(command, {"FACULA_BUILDING": "1"}, 900)
        return "" if done.returncode == 0 else done.stdout[-300:]

    def restore_kernels(self) -> None:
        output = self.folder / "src" / "facula" / "_kernels"
        shutil.rmtree(output)
        shutil.copytree(self.folder / "kernels", output)
        for stamp in (self.folder / "build").glob("kernels/*/linked"):
            stamp.unlink()

    def run(self, command: list[str], more: dict[str, str], seconds: float) -> Any:
        """Runs a command in the copy, ended with all its children when it takes too long."""
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment() | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return subprocess.CompletedProcess(command, 124, output)
        return subprocess.CompletedProcess(command, process.returncode, output)

    def test(self, tests: list[str], patience: float = PATIENCE) -> str:
        """Runs tests; gives what noticed the change, or nothing."""
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
            listed = Path(cache) / "tests"
            listed.write_text("\n".join(tests))
            done = self.run([*command, f"@{listed}"], {"FACULA_CACHE_DIR": cache}, patience)
        if done.returncode == 0:
            return ""
        if done.returncode == 124:
            return "hangs"
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return failed[1] if failed else f"pytest's exit {done.returncode}"


#: where a function, table, type or macro of C begins; what is indented belongs to the one before
BEGIN = re.compile(r"^(?:#define\b|[A-Za-z_])", re.MULTILINE)
ATTRIBUTE = re.compile(r"__attribute__ ?\(\(.*?\)\)+|/\*.*?\*/", re.DOTALL)
NAME = re.compile(
    r"#define (\w+)|\A(?!typedef)[^;={]*?(\w+)\(|\A(?!typedef)[^;(]*?(\w+)(?:\[[^]]*\])*\s*[=;]"
    r"|(\w+)(?:\[[^]]*\])*\s*;\s*\Z"
)
ENTRY = re.compile(r'\{\s*"([^"]+)",\s*\'[mbd]\',\s*(?:\(void \*\))?\s*&?(\w+)')


def changed_kernels(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Names of the kernels whose functions, or what these call, have another text."""
    found: list[str] = []
    for unit in after:
        if after[unit] != before.get(unit):
            found += _changed_in_unit(before.get(unit, ""), after[unit])
    return found


def _chunks(text: str) -> dict[str, str]:
    """The text of each function, table, type and macro by name; of all that has none by ""."""
    text = text.partition("fk_entry facula_kernels[")[0]
    starts = [match.start() for match in BEGIN.finditer(text)]
    chunks: dict[str, str] = {"": text[: starts[0]] if starts else text}
    for at, end in zip(starts, [*starts[1:], len(text)], strict=True):
        found = NAME.search(ATTRIBUTE.sub("", text[at:end]).strip())
        name = next(filter(None, found.groups()), "") if found else ""
        chunks[name] = chunks.get(name, "") + text[at:end]
    return chunks


def _changed_in_unit(before: str, after: str) -> list[str]:
    entries = ENTRY.findall(after)
    old, new = _chunks(before), _chunks(after)
    touched = {name for name in new if new[name] != old.get(name)}
    if "" in touched:
        return [name for name, _ in entries]
    words = {name: set(re.findall(r"\w+", text)) for name, text in new.items()}
    while True:
        more = {name for name in new if name not in touched and words[name] & touched}
        if not more:
            break
        touched |= more
    chosen = [name for name, function in entries if function in touched]
    return chosen or [name for name, _ in entries]


class Chooser:
    """Which tests to run for a place, the most telling ones first."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.places, self.kernels, self.seconds = data["places"], data["kernels"], data["seconds"]
        self.breadth: dict[str, int] = {}
        for tests in [*self.places.values(), *self.kernels.values()]:
            for test in tests:
                self.breadth[test] = self.breadth.get(test, 0) + 1

    def tests(self, number: int, kernels: Iterable[str]) -> list[str]:
        """Tests that reach a place or launch one of the kernels."""
        found = set(self.places.get(str(number), ()))
        for kernel in kernels:
            found.update(self.kernels.get(kernel, ()))
        return self._spread(found)

    def patience(self, tests: list[str]) -> float:
        """Seconds after which these tests hang."""
        return PATIENCE + SLOWER * sum(self.seconds.get(test, 1.0) for test in tests)

    def _spread(self, tests: set[str]) -> list[str]:
        """Narrow and quick ones first, the functions of tests in turn."""
        ranked = sorted(tests, key=lambda t: (self.breadth[t], self.seconds.get(t, 1.0), t))
        turns: dict[str, int] = {}
        keyed = []
        for test in ranked:
            function = test.partition("[")[0]
            turns[function] = turns.get(function, 0) + 1
            keyed.append((turns[function], test))
        order = {test: at for at, test in enumerate(ranked)}
        return [test for _, test in sorted(keyed, key=lambda pair: (pair[0], order[pair[1]]))]


class Runner:
    """Tries the places one after another."""

    def __init__(self, work: Path) -> None:
        self.data = json.loads((work / "places.json").read_text())
        self.places = [Place(**place) for place in self.data]
        self.chooser = Chooser(json.loads((work / "map.json").read_text()))
        self.copy = Copy(work / "copy")
        texts = self.copy.kernel_texts()
        if isinstance(texts, str):
            sys.exit(f"the kernels cannot be written: {texts}")
        self.texts = texts

    def attempt(self, number: int) -> Verdict:
        """One change, its build and its tests."""
        place, begun = self.places[number], time.perf_counter()
        text = (ROOT / place.path).read_text()
        self.copy.write(place.path, place.apply(text))
        try:
            by = self._noticed(number)
        finally:
            self.copy.write(place.path, text)
        return Verdict(place, not by.startswith("-"), by, time.perf_counter() - begun)

    def _noticed(self, number: int) -> str:
        texts = self.copy.kernel_texts()
        if isinstance(texts, str):
            return "the kernels cannot be written"
        kernels = changed_kernels(self.texts, texts) if texts != self.texts else []
        tests = self.chooser.tests(number, kernels)
        if not tests:
            return f"- no test reaches it, {len(kernels)} kernels change"
        if texts == self.texts:
            return self._tested(tests)
        try:
            return "the kernels do not build" if self.copy.build() else self._tested(tests)
        finally:
            self.copy.restore_kernels()

    def _tested(self, tests: list[str]) -> str:
        for part in (tests[:FEW], tests[FEW:MANY]):
            by = self.copy.test(part, self.chooser.patience(part)) if part else ""
            if by:
                return by
        return f"- {min(len(tests), MANY)} tests pass"


def run(arguments: argparse.Namespace) -> None:
    """Tries every place, says which were noticed."""
    runner = Runner(arguments.work)
    verdicts = []
    for number in range(len(runner.places))[arguments.first : arguments.last]:
        verdicts.append(runner.attempt(number))
        print(verdicts[-1], flush=True)
        write_results(arguments.work / "results.json", verdicts)
    noticed = sum(verdict.noticed for verdict in verdicts)
    share = 100 * noticed / max(1, len(verdicts))
    print(f"{noticed} of {len(verdicts)} changes were noticed: {share:.1f} %")
    sys.exit(share < arguments.least)


def write_results(path: Path, verdicts: list[Verdict]) -> None:
    rows = [
        {"place": v.place.data(), "noticed": v.noticed, "by": v.by, "seconds": round(v.seconds, 1)}
        for v in verdicts
    ]
    path.write_text(json.dumps(rows, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("draw", "map", "run"))
    parser.add_argument("tests", nargs="*", help="for map: tests, instead of all")
    parser.add_argument(
        "--work",
        type=lambda text: Path(text).resolve(),
        default=ROOT / "build" / "mutation",
        help="folder",
    )
    parser.add_argument("--count", type=int, default=200, help="places to draw")
    parser.add_argument("--seed", type=int, default=dated_seed(), help="default: the day")
    parser.add_argument("--first", type=int, help="run: from this place on")
    parser.add_argument("--last", type=int, help="run: up to this place")
    parser.add_argument("--least", type=float, default=0.0, help="percent that must be noticed")
    arguments = parser.parse_args()
    {"draw": draw, "map": make_map, "run": run}[arguments.what](arguments)


if __name__ == "__main__":
    main()
