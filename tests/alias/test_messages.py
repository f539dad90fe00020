"""Under torch's name messages speak of torch, and tracebacks begin in the program's own file."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import facula

ROOT = str(Path(facula.__file__).parent)

#: calls that fail in each of the places where messages are made
WRONG = [
    "torch.from_numpy(3)",  # the core
    "torch.zeros(2, dtype=3)",
    "torch.ones(2).add_('a')",
    "torch.ones(2, 3) @ 'a'",
    "torch.atleast_2d('a')",
    "torch.fft.rfft(torch.ones(3, dtype=torch.complex64))",  # definitions of operators
    "torch.view_as_complex(torch.ones(3))",
    "torch.stft(torch.ones(9), 4, window=torch.ones(3), return_complex=True)",
    "torch.nn.Module().load_state_dict(3)",  # modules
    "torch.nothing",  # names that are not there
    "torch.nn.nothing",
    "torch.nn.functional.nothing",
    "torch.linalg.nothing",
    "exec('from torch.nn import nothing')",
    "exec('from torch.nn.functional import nothing')",
    "torch.optim.nothing",
    "torch.compile(lambda x: x.nonzero() if x.sum() > 0 else x, fullgraph=True)(torch.ones(2))",
    "torch.compile(lambda x: x, backend='nothing')(torch.ones(2))",
    "torch._dynamo.config.nothing",
    "torch.library.opcheck(3, ())",
]
COLLECT = """
import json, sys, torch
messages = {}
for code in json.loads(sys.argv[1]):
    try:
        eval(compile(code, "<call>", "eval"))
    except Exception as error:
        messages[code] = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
print(json.dumps(messages))
"""
OURS = re.compile(r"(?<![\w./-])facula\b(?!/)")


@pytest.fixture(scope="module")
def messages():
    """What each of `WRONG` says under torch's name."""
    code = f"import facula; facula.install_as_torch()\n{COLLECT}"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(WRONG)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("code", WRONG)
def test_messages_speak_of_torch(messages, code):
    assert code in messages, "the call did not fail"
    assert not OURS.search(messages[code]), messages[code]


def test_hints_name_what_is_there_under_the_name_of_torch(messages):
    assert "hint: torch.tensor() takes" in messages["torch.from_numpy(3)"]
    assert "module 'torch.nn' has no attribute 'nothing'" in messages["torch.nn.nothing"]


def test_values_and_files_of_the_program_are_not_renamed():
    core = facula.core
    before = core.DTYPE_PREFIX[0]
    core.DTYPE_PREFIX[0] = "torch"
    try:
        same = [
            "/x/facula/nn.py",
            "facula.py",
            "my.facula.x",
            "a-facula.x",
            "facula run",
            "xfacula.x",
        ]
        assert [core.spoken(text) for text in same] == same
        assert core.spoken("facula.ones(2), 'facula.nn'") == "torch.ones(2), 'torch.nn'"
        text = core.errors.message("op", "facula.ones was required", "facula.ones", "facula.zeros")
        assert text == "[op] torch.ones was required: got facula.ones\nhint: torch.zeros"
    finally:
        core.DTYPE_PREFIX[0] = before
    assert core.spoken("facula.ones") == "facula.ones"


def shown(tmp_path, source, *options, module=False, **environment):
    """The standard error of a program under `facula run`, and its exit status."""
    script = tmp_path / "program.py"
    script.write_text(source)
    name = ["-m", "program"] if module else [str(script)]
    done = subprocess.run(
        [sys.executable, "-m", "facula", "run", *name],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(ROOT).parent), **environment},
    )
    return done.stderr, done.returncode


def files(text):
    """The files and functions of the frames in a traceback."""
    return re.findall(r'File "([^"]+)", line \d+(?:, in (\S+))?', text)


FAILS = "import torch\ndef work(x):\n    return torch.softmax(x, 5)\nwork(torch.ones(2))\n"
CALLS_BACK = """
import torch
class Mine(torch.nn.Module):
    def forward(self, x):
        raise ValueError("mine")
torch.nn.Sequential(Mine())(torch.ones(2))
"""


@pytest.mark.parametrize("module", [False, True])
def test_a_traceback_begins_and_ends_in_the_program(tmp_path, module):
    text, status = shown(tmp_path, FAILS, module=module)
    program = str(tmp_path / "program.py")
    assert status == 1
    assert files(text) == [(program, "<module>"), (program, "work")]
    assert "IndexError: [softmax]" in text and "\nhint: " in text
    assert "FACULA_FULL_TRACEBACKS=1 shows them" in text


def test_all_frames_on_request(tmp_path):
    text, status = shown(tmp_path, FAILS, FACULA_FULL_TRACEBACKS="1")
    names = [name for name, _ in files(text)]
    assert status == 1 and "<frozen runpy>" in names
    assert any(name.endswith("core/errors.py") for name in names)
    assert "FACULA_FULL_TRACEBACKS" not in text


def test_errors_that_do_not_explain_themselves_keep_the_frames_below(tmp_path):
    source = "import torch\ntorch.utils.data.DataLoader([1], collate_fn=3).__iter__().__next__()\n"
    found = files(shown(tmp_path, source)[0])
    assert found[0] == (str(tmp_path / "program.py"), "<module>")
    assert found[-1][0].startswith(ROOT)


def test_errors_of_the_program_inside_of_modules_keep_its_frames(tmp_path):
    program = str(tmp_path / "program.py")
    found = files(shown(tmp_path, CALLS_BACK)[0])
    assert found[0] == (program, "<module>") and found[-1] == (program, "forward")


def test_causes_are_shortened_too(tmp_path):
    source = FAILS.replace(
        "work(torch.ones(2))",
        "try: work(torch.ones(2))\nexcept IndexError as e: raise KeyError('k') from e",
    )
    text, _ = shown(tmp_path, source)
    program = str(tmp_path / "program.py")
    assert files(text) == [(program, "<module>"), (program, "work"), (program, "<module>")]
    assert "direct cause" in text and "KeyError: 'k'" in text


def test_a_hook_of_the_program_gets_the_short_traceback(tmp_path):
    source = (
        "import sys, traceback\n"
        "def hook(kind, error, tb): sys.stderr.write('HOOK ' + ''.join(traceback.format_tb(tb)))\n"
        "sys.excepthook = hook\n" + FAILS
    )
    text, status = shown(tmp_path, source)
    assert status == 1 and text.startswith("HOOK ")
    assert {name for name, _ in files(text)} == {str(tmp_path / "program.py")}


def test_debuggers_get_the_whole_traceback(tmp_path):
    source = (
        "import atexit, sys, traceback\n"
        "def last(): print('LAST', len(traceback.extract_tb(sys.last_value.__traceback__)),"
        " getattr(sys.last_value, '__notes__', None), file=sys.stderr)\n"
        "atexit.register(last)\n" + FAILS
    )
    text, _ = shown(tmp_path, source)
    count, notes = re.search(r"LAST (\d+) (.*)", text).groups()
    assert int(count) > 8 and notes == "None"


def test_syntax_errors_and_exits_are_pythons_own(tmp_path):
    text, status = shown(tmp_path, "x = = 1\n")
    assert status == 1 and files(text) == [(str(tmp_path / "program.py"), "")]
    assert "SyntaxError" in text and "left out" not in text
    assert shown(tmp_path, "raise SystemExit('done')\n") == ("done\n", 1)


COMPILES = """
import torch
import torch.nn.functional as F

model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU())
from torch._dynamo.utils import counters
def f(x):
    return F.layer_norm(F.softmax(model(x), -1), (4,))
x = torch.randn(5, 3)
print(torch.allclose(torch.compile(f, fullgraph=True)(x), f(x), atol=1e-6))
import facula.capture.guards.reading as reading
print(reading.is_trusted_name("torch.nn.functional"), reading.is_trusted_name("facula.nn"))
"""


def test_capture_knows_the_frameworks_modules_under_both_names(tmp_path):
    code = "import facula; facula.install_as_torch()\n" + COMPILES
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["True"] * 3, done.stderr
