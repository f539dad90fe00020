"""Files that PyTorch 2.13 wrote give its numbers; loading runs no code; bad files are clear errors."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import facula
from facula import jit

FILES = Path(__file__).parent / "files"
NAMES = sorted(p.stem for p in FILES.glob("*.pt"))


def close(a, b):
    if isinstance(a, facula.Tensor):
        return a.shape == b.shape and facula.allclose(a, b, rtol=1e-4, atol=1e-5)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    return a == b


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_pytorch_gives_its_numbers(name):
    model = jit.load(FILES / f"{name}.pt")
    values = facula.load(FILES / f"{name}.values")
    with facula.no_grad():
        assert close(model(*values["args"]), values["out"])


def test_a_loaded_module_is_a_module():
    model = jit.load(FILES / "s_res.pt")
    assert model.original_name == "Res" and not model.training
    assert "stem.0.weight" in model.state_dict()
    assert all(p.requires_grad for p in model.parameters())
    assert model.to(facula.float64).fc.weight.dtype == facula.float64
    assert model.train().training and model.layers.training
    assert "aten::adaptive_avg_pool2d" in str(model.graph) or "prim::CallFunction" in str(
        model.graph
    )


def test_map_location_places_the_tensors():
    assert jit.load(FILES / "ce.pt", map_location="cpu") is not None
    model = jit.load(FILES / "s_res.pt", map_location="meta")
    assert model.fc.weight.is_meta


_WATCHED = """
import sys, ast, facula
from facula import jit
with open(sys.argv[1], "rb") as f:
    f.read()
jit.load(sys.argv[2])  # what is imported on first use is imported now
seen = []
def hook(event, arguments):
    if event == "compile" and (arguments[0] is None or isinstance(arguments[0], (str, bytes))):
        return  # ast.parse: text to a syntax tree, checked below
    if event in ("exec", "compile", "import", "os.system", "subprocess.Popen", "socket.connect", "pickle.find_class"):
        seen.append((event, str(arguments)[:200]))
sys.addaudithook(hook)
jit.load(sys.argv[1])
print(seen)
"""


@pytest.mark.parametrize(
    ("name", "before"),
    [("s_emb", "f_f12_1"), ("s_res", "f_f12_1"), ("f_f3_1", "f_f12_1"), ("q_static", "q_emb")],
)
def test_loading_executes_nothing(name, before):
    arguments = [sys.executable, "-c", _WATCHED, FILES / f"{name}.pt", FILES / f"{before}.pt"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stdout


def changed(name, change):
    """The file with records changed by a function of name and bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(FILES / f"{name}.pt") as source, zipfile.ZipFile(made, "w") as target:
        for entry in source.infolist():
            data = change(entry.filename, source.read(entry.filename))
            if data is not None:
                target.writestr(entry.filename, data)
    made.seek(0)
    return made


def with_code(text):
    def change(name, data):
        return text if name.endswith("code/__torch__.py") else data

    return changed("f_f7_2", change)


@pytest.mark.parametrize(
    "code",
    [
        b"import os\nos.system('echo')\n",
        b"class PlaceholderModule(Module):\n  __parameters__ = __import__('os').listdir()\n",
        b"class PlaceholderModule(Module):\n  def forward(self: __torch__.PlaceholderModule) -> int:\n"
        b"    return __import__('os').getpid()\n",
        b"class PlaceholderModule(Module):\n  def forward(self: __torch__.PlaceholderModule,"
        b" a: int=open(1)) -> int:\n    return 1\n",
        b"class PlaceholderModule(Module):\n  def forward(self: __torch__.PlaceholderModule) -> str:\n"
        b"    return len.__self__.__dict__\n",
        b"class PlaceholderModule(Module):\n  x : __torch__._code.__class__\n",
        b"class PlaceholderModule(Module):\n  __class__ : int\n",
        b"class PlaceholderModule(Module:\n",
        b"(" * 5000,
        b"\xff\xfe",
        b"",
    ],
)
def test_code_that_is_no_torchscript_is_refused(code):
    with pytest.raises((RuntimeError, ValueError, facula.serialization.unpickle.UnpicklingError)):
        jit.load(with_code(code))


@pytest.mark.parametrize(
    "reached",
    [
        b"__torch__.__init__.__globals__['ast'].sys.modules['facula'].ones([1])",
        b"getattr(__torch__.__init__, '__globals__')['ast'].sys.modules['facula'].ones([1])",
        b"CONSTANTS.__init__.__globals__['ast'].sys.modules['facula'].ones([1])",
    ],
)
def test_code_of_a_file_does_not_reach_the_program_that_loads_it(reached):
    code = (
        b"class PlaceholderModule(Module):\n  training : bool\n"
        b"  def forward(self: __torch__.PlaceholderModule) -> Tensor:\n"
        b"    _0 = " + reached + b"\n    return torch.zeros([1])\n"
    )
    assert jit.load(with_code(code.replace(reached, b"torch.ones([1])")))() == 0
    with pytest.raises(RuntimeError):
        jit.load(with_code(code))


@pytest.mark.parametrize("part", ["data.pkl", "constants.pkl", "code/__torch__.py"])
def test_a_missing_record_is_refused(part):
    drop = changed("f_f7_2", lambda name, data: None if name.endswith(part) else data)
    with pytest.raises((RuntimeError, facula.serialization.unpickle.UnpicklingError)):
        jit.load(drop)


@pytest.mark.parametrize("keep", [0, 10, 100, 1000, 2000])
def test_a_truncated_file_is_refused(keep):
    data = (FILES / "f_f7_2.pt").read_bytes()[:keep]
    with pytest.raises((RuntimeError, EOFError)):
        jit.load(io.BytesIO(data))


def test_load_says_that_a_program_is_one():
    with pytest.raises(RuntimeError, match="jit.load"):
        facula.load(FILES / "ce.pt")
    made = io.BytesIO()
    facula.save({"x": facula.ones(1)}, made)
    made.seek(0)
    with pytest.raises(RuntimeError, match="read it with load"):
        jit.load(made)


def _bomb(body, forward="return 1"):
    """A class whose `__setstate__` runs while the file is read."""
    code = (
        "class PlaceholderModule(Module):\n  training : bool\n"
        "  def __getstate__(self: __torch__.PlaceholderModule) -> int:\n    return 1\n"
        "  def __setstate__(self: __torch__.PlaceholderModule, s: Any) -> None:\n"
        + "".join(f"    {line}\n" for line in body)
        + "    return None\n"
        f"  def forward(self: __torch__.PlaceholderModule) -> int:\n    {forward}\n"
        "def twice0(x: int) -> int:\n  return x\n"
        + "".join(
            f"def twice{i}(x: int) -> int:\n"
            f"  return torch.add(__torch__.twice{i - 1}(x), __torch__.twice{i - 1}(x))\n"
            for i in range(1, 60)
        )
        + "def again(x: int) -> int:\n  return __torch__.again(x)\n"
    )
    return with_code(code.encode())


_LOOPS = "abcdefghijkl"


@pytest.mark.parametrize(
    "body",
    [
        ["x = 0", "while True:", "  x = torch.add(x, 1)"],
        ["x = 0", "for i in range(9223372036854775807):", "  x = torch.add(x, i)"],
        ["x = __torch__.twice59(1)"],
        ["x = __torch__.again(1)"],
        ["x = [1]", "for i in range(60):", "  x = torch.add(x, x)"],
        ["x = torch.mul([1], 100000000)"],
        ["x = 'ab'", "for i in range(60):", "  x = torch.add(x, x)"],
        [f"{'  ' * i}for {c} in (1, 2, 3, 4, 5, 6, 7, 8, 9):" for i, c in enumerate(_LOOPS)]
        + ["  " * len(_LOOPS) + "x = a"],
        ["x0 = (1, 1)"] + [f"x{i + 1} = (x{i}, x{i})" for i in range(60)],
    ],
    ids=["while", "range", "calls", "recursion", "list", "times", "text", "unrolled", "tuples"],
)
def test_what_a_file_does_while_it_is_read_ends(body):
    with pytest.raises((RuntimeError, facula.serialization.unpickle.UnpicklingError)):
        jit.load(_bomb(body))


def test_short_work_of_a_file_is_done_while_it_is_read():
    body = ["x = 0", "for i in range(1000):", "  x = torch.add(x, i)", "self.training = False"]
    assert not jit.load(_bomb(body)).training
    # and afterwards nothing is bounded
    loop = "x = 0\n    for i in range(400000):\n      x = torch.add(x, 1)\n    return x"
    assert jit.load(_bomb(body, loop))() == 400000
