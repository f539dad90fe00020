"""Archives of exported programs that somebody changed: they are refused, and run nothing."""

import copy
import io
import json
import pickle
import sys
import zipfile
from pathlib import Path

import pytest

import facula
from facula import export, nn
from facula.export.archive import own_bytes

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from loader_watch import forbidden  # noqa: E402

#: what each hostile text would do if it became code: import a module that is not there
CODE = "__import__('tests_of_hostile_files')"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x).relu().sum(0, keepdim=True)


def parts() -> dict[str, bytes]:
    """A sound archive with a size that varies, by the names of its files."""
    n = export.Dim("n", min=2, max=64)
    program = export.export(Net(), (facula.ones(5, 4),), dynamic_shapes=({0: n},))
    with zipfile.ZipFile(io.BytesIO(own_bytes(program))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


SOUND = parts()
DESCRIBED = json.loads(SOUND["program.json"])


def packed(described) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("program.json", json.dumps(described))
        archive.writestr("tensors.pt", SOUND["tensors.pt"])
    return buffer


def node(described, op: str):
    return next(n for n in described["nodes"] if n["op"] == op)


def placeholder_target(d):
    last = [n for n in d["nodes"] if n["op"] == "placeholder"][-1]
    last["target"] = f"x={CODE}"


def placeholder_name(d):
    node(d, "placeholder")["name"] = f"x={CODE}"


def keyword(d):
    kwargs = node(d, "call_function")["kwargs"]
    kwargs["dict"] = [[f"a={CODE}, b", 1]]


def output_target(d):
    node(d, "output")["target"] = f"output; {CODE}"


def dotted_target(d):
    node(d, "call_function")["target"] = "os.system"


def method_of_a_module(d):
    node(d, "call_function")["target"] = "aten.__class__.mro"


def any_attribute(d):
    node(d, "call_function").update(
        target="operator.attrgetter", args={"tuple": ["__class__"]}, kwargs={"dict": []}
    )


def any_call(d):
    node(d, "call_function")["target"] = "operator.call"


def any_method(d):
    node(d, "call_function")["target"] = "operator.methodcaller"


def symbol(d):
    text = json.dumps(d).replace('["symbol", ["s77"]]', json.dumps(["symbol", [CODE]]))
    assert text != json.dumps(d)
    d.clear()
    d.update(json.loads(text))


def function_of_sizes(d):
    d["guards"] = [[[[1, [[["system", [[], []]], 1]]]], "==", []]]


def relation(d):
    d["guards"] = [[[], CODE, []]]


def power(d):
    d["guards"] = [[[[1, [[["symbol", ["s77"]], 1 << 40]]]], "==", []]]


def argument_name(d):
    d["arguments"] = [f"x={CODE}"]


def attribute_of_every_object(d):
    d["signature"]["inputs"][0]["target"] = "__class__"


def attribute_that_is_no_tensor(d):
    d["signature"]["inputs"][0]["target"] = "forward"


def written_attribute(d):
    d["signature"]["outputs"][0].update(kind="BUFFER_MUTATION", target="__dict__")


def size_of_no_input(d):
    node(d, "placeholder")["val"]["sizes"][0] = [[3, [[["symbol", ["other"]], 1]]]]


def container(d):
    d["in_spec"]["type"] = "subprocess.Popen"


def dtype(d):
    val = node(d, "placeholder")["val"]
    val["dtype"] = "load_library"


def device(d):
    node(d, "placeholder")["val"]["device"] = CODE


def default_of_an_input(d):
    node(d, "placeholder")["args"] = {"tuple": [1]}


def stack_trace(d):
    node(d, "call_function")["stack_trace"] = [CODE]


def nested_too_deep(d):
    args = []
    for _ in range(900):
        args = [args]
    node(d, "call_function")["args"] = {"tuple": args}


CHANGES = [
    placeholder_target, placeholder_name, keyword, output_target, dotted_target, method_of_a_module,
    any_attribute, any_call, any_method, symbol, function_of_sizes, relation, power, argument_name,
    attribute_of_every_object, attribute_that_is_no_tensor, written_attribute, size_of_no_input,
    container, dtype, device, default_of_an_input, stack_trace,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_a_changed_description_is_refused_and_runs_nothing(change):
    described = copy.deepcopy(DESCRIBED)
    change(described)
    with forbidden() as seen, pytest.raises(RuntimeError, match=r"\[export.load\]|\[device\]"):
        export.load(packed(described))
    assert not seen


def test_a_deep_nesting_is_an_error_of_ours():
    described = copy.deepcopy(DESCRIBED)
    nested_too_deep(described)
    with pytest.raises(RuntimeError):
        export.load(packed(described)).module()(facula.ones(3, 4))


def test_loading_writes_no_code():
    with forbidden() as seen:
        loaded = export.load(packed(DESCRIBED))
    assert not seen
    x = facula.arange(12.0).reshape(3, 4)
    state = loaded.state_dict
    expected = (x.numpy() @ state["layer.weight"].detach().numpy().T) + state[
        "layer.bias"
    ].detach().numpy()
    result = loaded.module()(x).detach().numpy()
    assert abs(result - expected.clip(0).sum(0, keepdims=True)).max() < 1e-5


def test_a_stack_trace_stays_a_comment():
    """A carriage return ends a line for Python."""
    described = copy.deepcopy(DESCRIBED)
    for entry in described["nodes"]:
        if entry["op"] == "call_function":
            entry["stack_trace"] = f'  File "a.py", line 1, in f\n    y = 1\r{CODE}\n'
    text = export.load(packed(described)).graph_module.print_readable(print_output=False)
    assert CODE in text
    assert all(CODE not in line or line.lstrip().startswith("#") for line in text.splitlines())


def test_paths_of_tensors_are_those_of_tensors():
    held = {"state": {"layer.__class__": facula.ones(1)}, "constants": {}, "inputs": None}
    tensors = io.BytesIO()
    facula.save(held, tensors)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("program.json", json.dumps(DESCRIBED))
        archive.writestr("tensors.pt", tensors.getvalue())
    with pytest.raises(RuntimeError, match="path of a tensor"):
        export.load(buffer)


def test_what_is_packed_is_refused():
    """A few bytes could else stand for any number of them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("program.json", " " * (1 << 20) + json.dumps(DESCRIBED))
        archive.writestr("tensors.pt", SOUND["tensors.pt"])
    with pytest.raises(RuntimeError, match="compressed"):
        export.load(buffer)


@pytest.mark.parametrize(
    "content", [b"[]", b"3", b"null", b'{"version": 1}', b"\xff", b"[" * 100000]
)
def test_other_json_is_refused(content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("program.json", content)
        archive.writestr("tensors.pt", SOUND["tensors.pt"])
    with pytest.raises(RuntimeError, match=r"\[export.load\]"):
        export.load(buffer)


@pytest.mark.parametrize("tensors", [b"", b"junk" * 100, SOUND["tensors.pt"][:200]])
def test_a_broken_checkpoint_inside_is_the_loaders_error(tensors):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("program.json", SOUND["program.json"])
        archive.writestr("tensors.pt", tensors)
    buffer.seek(0)
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match=r"^\[[\w.]+\] "):
        export.load(buffer)
