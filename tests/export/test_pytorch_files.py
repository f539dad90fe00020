"""PyTorch's files of exported programs: one that PyTorch wrote, and those that are written here."""

import io
import json
import sys
import warnings
import zipfile
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import facula
from facula import export, nn
from facula._export.serde.schema import ArgumentKind
from facula._export.serde.serialize import (
    ExportedProgramSerializer,
    SerializeError,
    canonicalize,
    deserialize,
    serialize,
)
from facula.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from loader_watch import forbidden  # noqa: E402

WRITTEN = Path(__file__).parent / "files" / "written_by_torch.pt2"
CODE = "__import__('tests_of_hostile_files')"


def test_a_file_of_pytorch_computes_what_it_did_there():
    note = {"note": ""}
    program = export.load(WRITTEN, extra_files=note)
    assert note == {"note": "hello"}
    x = facula.arange(9.0).reshape(3, 3) - 2
    found = program.module()(x, {"n": facula.tensor([1.5, 2.5])}, flag=True)
    # by hand: linear with weight 0..5 and bias (0.5, -0.5), times (1, 2), plus (4, 5), plus (1, 1)
    z = (x.numpy() @ np.arange(6.0).reshape(2, 3).T + [0.5, -0.5]) * [1, 2] + [4, 5] + 1
    np.testing.assert_allclose(found["first"].detach().numpy(), z[:, :1])
    np.testing.assert_allclose(found["y"].detach().numpy(), z + 1)
    weights = np.exp(z - z.max(1, keepdims=True))
    np.testing.assert_allclose(
        found["z"].detach().numpy(), weights / weights.sum(1, keepdims=True), atol=1e-6
    )
    assert (found["rows"], found["k"], found["n"].tolist()) == (6, 7, [1, 2])
    assert program.range_constraints["s77"] == export.dynamic_shapes.ValueRanges(2, 16)
    with pytest.raises(AssertionError, match=r"x.size\(\)\[0\] <= 16"):
        program.module()(facula.ones(17, 3), {"n": facula.ones(2)}, flag=True)
    assert isinstance(program.state_dict["l.weight"], nn.Parameter)


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("scale", facula.full((3,), 2.0))
        self.register_buffer("hidden", facula.ones(3), persistent=False)
        self.shared = facula.arange(6.0)[::2]

    def forward(self, x, pair, flag=True):
        z = self.layer(x) * self.scale + self.hidden + self.shared
        parts = z.split(1, 1)
        y = facula.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (z,))
        rest = pair["n"].to(facula.int64) if flag else None
        return {
            "first": parts[0],
            "y": y,
            "rows": z.shape[0] * 2 + 1,
            "k": 7,
            "none": None,
            "rest": rest,
        }


def program_and_inputs():
    n = export.Dim("n", min=2, max=16)
    inputs = facula.randn(4, 4), {"n": facula.tensor([1.5])}
    shapes = {"x": {0: n}, "pair": {"n": None}, "flag": None}
    return export.export(Everything(), inputs, {"flag": True}, dynamic_shapes=shapes), inputs


def leaves_equal(a, b):
    first, second = pytree.tree_leaves(a), pytree.tree_leaves(b)
    return len(first) == len(second) and all(
        facula.equal(x, y) if isinstance(x, facula.Tensor) else x == y
        for x, y in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("decomposed", [False, True])
def test_what_is_written_is_read_back(decomposed):
    program, inputs = program_and_inputs()
    program = program.run_decompositions() if decomposed else program
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing falls back to the other format
        export.save(program, stream)
    back = export.load(stream)
    other = (facula.randn(9, 4), inputs[1])
    assert leaves_equal(back.module()(*other, flag=True), program.module()(*other, flag=True))
    assert str(back.graph_signature) == str(program.graph_signature)
    assert back.range_constraints == program.range_constraints
    assert [n.name for n in back.graph.nodes if n.op != "get_attr"][:6] == [
        n.name for n in program.graph.nodes if n.op != "get_attr"
    ][:6]
    with pytest.raises(AssertionError, match="<= 16"):
        back.module()(facula.ones(17, 4), inputs[1], flag=True)


def test_the_archive_has_pytorchs_parts():
    program, _ = program_and_inputs()
    stream = io.BytesIO()
    export.save(program, stream, extra_files={"note": "hello"})
    with zipfile.ZipFile(stream) as archive:
        parts = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    assert parts["archive_format"] == b"pt2" and parts["extra/note"] == b"hello"
    record = json.loads(parts["models/model.json"])
    assert record["schema_version"] == {"major": 8, "minor": 20}
    nodes = record["graph_module"]["graph"]["nodes"]
    split = next(n for n in nodes if n["target"] == "torch.ops.aten.split.Tensor")
    assert [i["name"] for i in split["inputs"]] == ["self", "split_size", "dim"]
    assert len(split["outputs"][0]["as_tensors"]) == 3
    x = record["graph_module"]["graph"]["tensor_values"]["x"]
    assert x["sizes"][0]["as_expr"]["expr_str"] == "Symbol('s77', positive=True, integer=True)"
    config = json.loads(parts["data/weights/model_weights_config.json"])["config"]
    weight = config["layer.weight"]
    raw = np.frombuffer(parts["data/weights/" + weight["path_name"]], np.float32).reshape(3, 4)
    np.testing.assert_array_equal(raw, program.state_dict["layer.weight"].detach().numpy())
    assert weight["is_param"] and weight["tensor_meta"]["dtype"] == 7


def test_tensors_that_share_memory_share_it_again():
    class Shares(nn.Module):
        def __init__(self):
            super().__init__()
            self.whole = facula.ones(3, 3)
            self.diagonal = self.whole.diagonal()

        def forward(self, x):
            return x + self.whole + self.diagonal

    stream = io.BytesIO()
    export.save(export.export(Shares(), (facula.ones(3, 3),)), stream)
    back = export.load(stream).constants
    back["whole"][1, 1] = 5
    assert back["diagonal"].tolist() == [1, 5, 1]


def test_methods_of_the_core_keep_their_keywords():
    class Copies(nn.Module):
        def forward(self, x):
            return x.permute(1, 0).reshape(-1)

    program = export.export(Copies(), (facula.ones(2, 3),)).run_decompositions()
    back = deserialize(serialize(program))
    x = facula.arange(6.0).reshape(2, 3)
    assert back.module()(x).tolist() == [0, 3, 1, 4, 2, 5]


def test_records_name_arguments_and_results():
    class Sorts(nn.Module):
        def forward(self, x):
            return x.sort(1)[0], tuple(x.topk(2))

    program = export.export(Sorts(), (facula.ones(2, 3),))
    nodes = ExportedProgramSerializer().serialize(program).exported_program.graph_module.graph.nodes
    sort, topk = nodes
    assert len(sort.outputs) == len(topk.outputs) == 2
    assert [i.kind for i in topk.inputs] == [ArgumentKind.POSITIONAL] * 2
    names = [o.as_tensor.name for n in nodes for o in n.outputs]
    assert len(set(names)) == 4 and names[1] == "sort_unused_1"


def test_the_one_form_of_a_program_orders_independent_calls():
    class Sums(nn.Module):
        def forward(self, x, y):
            a = y + x
            b = x + y
            return b * a

    class Other(nn.Module):
        def forward(self, x, y):
            b = x + y
            a = y + x
            return b * a

    forms = []
    for module in (Sums(), Other()):
        made = ExportedProgramSerializer().serialize(export.export(module, (facula.ones(2),) * 2))
        forms.append(canonicalize(made.exported_program).graph_module.graph.nodes)
    assert forms[0] == forms[1]
    assert forms[0][0].inputs[0].arg.as_tensor.name < forms[0][1].inputs[0].arg.as_tensor.name


def test_guards_between_sizes_survive():
    class Differ(nn.Module):
        def forward(self, x, y):
            return x.sum() + y.sum() if x.shape[0] != y.shape[0] else x + y

    auto = {0: export.Dim.AUTO}
    program = export.export(Differ(), (facula.ones(3), facula.ones(4)), dynamic_shapes=(auto, auto))
    back = deserialize(serialize(program)).module()
    assert back(facula.ones(5), facula.ones(6)).item() == 11
    with pytest.raises(AssertionError, match="Guard failed"):
        back(facula.ones(5), facula.ones(5))


def test_structures_are_text_of_pytorchs_form():
    Pair = namedtuple("Pair", "a b")
    pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")
    spec = pytree.tree_structure(([1, {"k": 2}], Pair(1, None)))
    text = pytree.treespec_dumps(spec)
    assert json.loads(text)[1]["type"] == "builtins.tuple"
    assert pytree.treespec_loads(text) == spec
    for wrong in ("[2, {}]", "[1, {}]", "x"):
        with pytest.raises(ValueError):
            pytree.treespec_loads(wrong)
    hostile = {"type": "os.system", "context": "null", "children_spec": []}
    with pytest.raises(NotImplementedError, match="registered"):
        pytree.treespec_loads(json.dumps([1, hostile]))


def test_what_the_format_has_no_words_for_is_kept_otherwise():
    class Slices(nn.Module):
        def forward(self, x):
            return x + 1

    program = export.export(Slices(), (facula.ones(2),))
    node = next(n for n in program.graph.nodes if n.op == "call_function")
    node.args = (node.args[0], {1: 2})
    with pytest.raises(SerializeError, match="keys"):
        serialize(program)
    stream = io.BytesIO()
    with pytest.warns(UserWarning, match="own format"):
        export.save(program, stream)
    back = export.load(stream)
    assert next(n for n in back.graph.nodes if n.op == "call_function").args[1] == {1: 2}


# ------------------------------------------------------------------ files that somebody changed


def changed(change) -> io.BytesIO:
    """A sound archive whose records were changed."""
    program, _ = program_and_inputs()
    stream, made = io.BytesIO(), io.BytesIO()
    export.save(program, stream)
    with zipfile.ZipFile(stream) as archive, zipfile.ZipFile(made, "w") as out:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith("models/model.json"):
                record = json.loads(content)
                change(record["graph_module"])
                content = json.dumps(record).encode()
            out.writestr(name, content)
    return made


def first_call(module):
    return next(n for n in module["graph"]["nodes"] if "linear" in n["target"])


CHANGES = {
    "a function": lambda m: first_call(m).update(target="os.system"),
    "a function of operator": lambda m: first_call(m).update(target="_operator.attrgetter"),
    "a name of torch": lambda m: first_call(m).update(target="torch.load"),
    "a method of an operator": lambda m: first_call(m).update(target="torch.ops.aten.__class__.mro"),
    "code as a name": lambda m: first_call(m).update(name=f"x={CODE}"),
    "code as a keyword": lambda m: first_call(m)["inputs"].append(
        {"name": f"a={CODE}", "arg": {"as_int": 1}, "kind": 2}
    ),
    "code as an input": lambda m: m["graph"]["inputs"].append({"as_tensor": {"name": CODE}}),
    "code as a symbol": lambda m: m["graph"]["tensor_values"]["x"]["sizes"][0].update(
        as_expr={"expr_str": f"Symbol({CODE!r})"}
    ),
    "a call in an expression": lambda m: m["graph"]["tensor_values"]["x"]["sizes"][0].update(
        as_expr={"expr_str": CODE}
    ),
    "two fields of one": lambda m: m["graph"]["outputs"].append({"as_int": 1, "as_bool": True}),
    "no such field": lambda m: m["graph"]["outputs"].append({"as_pickle": "x"}),
    "another type": lambda m: m["graph"].update(nodes={"a": 1}),
    "a missing field": lambda m: m["graph"].pop("inputs"),
    "a container": lambda m: m["module_call_graph"][0]["signature"].update(
        in_spec=json.dumps([1, {"type": "os.system", "context": None, "children_spec": []}])
    ),
    "a path to everything": lambda m: m["signature"]["input_specs"][0]["parameter"].update(
        parameter_name="__class__.x"
    ),
    "a size below 0": lambda m: m["graph"]["tensor_values"]["x"]["sizes"][1].update(as_int=-1),
    "a graph as everything": lambda m: next(
        i["arg"]["as_graph"]
        for n in m["graph"]["nodes"]
        for i in n["inputs"]
        if "as_graph" in i["arg"]
    ).update(name="__init__"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changed_records_are_refused(name):
    with forbidden(), pytest.raises(RuntimeError):
        export.load(changed(CHANGES[name]))


def test_cut_files_and_other_versions_are_refused():
    content = WRITTEN.read_bytes()
    for end in (10, 1000, len(content) - 30):
        with pytest.raises(RuntimeError):
            export.load(io.BytesIO(content[:end]))
    made = io.BytesIO()
    with zipfile.ZipFile(WRITTEN) as archive, zipfile.ZipFile(made, "w") as out:
        for name in archive.namelist():
            version = name.endswith("archive_version")
            out.writestr(name, b"-1" if version else archive.read(name))
    with pytest.raises(ValueError, match="archive version"):
        export.load(made)


def test_tensors_do_not_reach_beyond_their_bytes():
    made = io.BytesIO()
    with zipfile.ZipFile(WRITTEN) as archive, zipfile.ZipFile(made, "w") as out:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith("weights_config.json"):
                config = json.loads(content)
                config["config"]["b"]["tensor_meta"]["sizes"] = [{"as_int": 1 << 20}]
                content = json.dumps(config).encode()
            out.writestr(name, content)
    with pytest.raises(RuntimeError, match="bytes"):
        export.load(made)


class Names(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x, i):
        y = nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2).flatten(1)
        y = nn.functional.dropout(y, 0.0, False).softmax(1)
        sums = facula.einsum("ij,kj->ik", y, y)
        return (
            sums[i],
            y.to(facula.float64),
            facula.arange(3),
            facula.where(y > 0, y, 0.5),
            y.var(1),
            y.max(1)[0],
        )


def test_calls_have_pytorchs_names_and_arguments():
    """As PyTorch's schemas have them (`torch.ops.aten.<name>._schema` of 2.13)."""
    wanted = {
        "conv2d.default": ["input", "weight", "bias"],
        "batch_norm.default": [
            "input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps", "cudnn_enabled",
        ],
        "relu.default": ["self"], "max_pool2d.default": ["self", "kernel_size"],
        "flatten.using_ints": ["self", "start_dim"],
        "dropout.default": ["input", "p", "train"], "softmax.int": ["self", "dim"],
        "einsum.default": ["equation", "tensors"], "index.Tensor": ["self", "indices"], "to.dtype": ["self", "dtype"],
        "arange.default": ["end"], "gt.Scalar": ["self", "other"], "where.ScalarOther": ["condition", "self", "other"],
        "var.dim": ["self", "dim"], "max.dim": ["self", "dim"],
    }  # fmt: skip
    inputs = facula.randn(2, 3, 8, 8), facula.tensor([1, 0])
    program = export.export(Names().eval(), inputs)
    made = ExportedProgramSerializer().serialize(program).exported_program
    assert made.verifiers == ["TRAINING"]
    found = {
        n.target.removeprefix("torch.ops.aten."): [i.name for i in n.inputs if i.kind == 1]
        for n in made.graph_module.graph.nodes
    }
    for name, arguments in wanted.items():
        assert found[name][: len(arguments)] == arguments, name
    back = deserialize(serialize(program)).module()
    assert leaves_equal(back(*inputs), program.module()(*inputs))
