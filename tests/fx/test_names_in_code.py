"""Names that become code or paths: whatever a graph or module holds, none of them runs."""

import ast
import enum
import importlib
import sys

import pytest

import facula
from facula import fx, nn

CODE = "__import__('pathlib').Path('ran').touch()"
HOSTILE = [
    f'a", 0) or {CODE} or getattr(0, "',
    f"a', 0) or {CODE} or getattr(0, '",
    f"a;{CODE}",
    f"a\n    {CODE}\n    #",
    f"a\r    {CODE}",
    "a b",
    "class",
    "a\\",
    "'''",
    '"""',
]


class Scale(nn.Module):
    def __init__(self, factor: float):
        super().__init__()
        self.weight = nn.Parameter(facula.tensor(factor))

    def forward(self, x):
        return x * self.weight


@pytest.fixture(autouse=True)
def nothing_ran(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "ran").exists()


def graph_of(op: str, target, kwargs=None):
    graph = fx.Graph()
    x = graph.placeholder("x")
    args = () if op == "get_attr" else (x,)
    graph.output(graph.create_node(op, target, args, kwargs or {}))
    return graph


@pytest.mark.parametrize("name", HOSTILE)
def test_children_of_any_name_are_called(name):
    root = nn.Module()
    root.add_module(name.replace(".", "_"), Scale(3.0))
    module = fx.GraphModule(root, graph_of("call_module", name.replace(".", "_")))
    assert float(module(facula.tensor(2.0)).detach()) == 6.0


@pytest.mark.parametrize("name", HOSTILE)
def test_attributes_of_any_name_are_read(name):
    root = nn.Module()
    root.register_buffer(name.replace(".", "_"), facula.tensor(5.0))
    module = fx.GraphModule(root, graph_of("get_attr", name.replace(".", "_")))
    assert float(module(facula.tensor(2.0))) == 5.0


@pytest.mark.parametrize("name", HOSTILE)
def test_methods_of_any_name_are_looked_up(name):
    module = fx.GraphModule(nn.Module(), graph_of("call_method", name))
    with pytest.raises(AttributeError):
        module(facula.ones(2))


def keywords(x, **given):
    return list(given.items())


@pytest.mark.parametrize("name", HOSTILE)
def test_keywords_of_any_name_are_passed(name):
    module = fx.GraphModule(nn.Module(), graph_of("call_function", keywords, {name: 1, "b": 2}))
    assert module(facula.ones(1)) == [(name, 1), ("b", 2)]


@pytest.mark.parametrize("name", HOSTILE)
def test_inputs_are_identifiers(name):
    with pytest.raises(ValueError, match=r"\[Node\] an identifier was required"):
        fx.Graph().placeholder(name)


@pytest.mark.parametrize("name", [f"x={CODE}", *HOSTILE])
def test_inputs_that_were_renamed_are_checked_where_code_is_written(name):
    graph = graph_of("call_method", "relu")
    next(iter(graph.nodes)).target = name
    with pytest.raises(ValueError, match="an identifier was required"):
        fx.GraphModule(nn.Module(), graph)
    with pytest.raises(RuntimeError, match="an identifier was required"):
        graph.lint()


@pytest.mark.parametrize("name", HOSTILE)
def test_annotations_are_quoted(name):
    graph = graph_of("call_method", "relu")
    for node in graph.nodes:
        node.type = name
    module = fx.GraphModule(nn.Module(), graph)
    assert float(module(facula.tensor(-2.0))) == 0.0
    assert ast.literal_eval(type(module).forward.__annotations__["x"]) == name


def test_local_classes_annotate():
    class Local:
        pass

    graph = graph_of("call_method", "relu")
    for node in graph.nodes:
        node.type = Local
    assert float(fx.GraphModule(nn.Module(), graph)(facula.tensor(-2.0))) == 0.0


def test_enumerations_of_any_name_are_constants():
    odd = enum.Enum("Odd", {f"a;{CODE}": 1, "plain": 2})
    module = fx.GraphModule(
        nn.Module(), graph_of("call_function", keywords, {"odd": list(odd)[0], "plain": odd.plain})
    )
    assert module(facula.ones(1)) == [("odd", list(odd)[0]), ("plain", odd.plain)]


@pytest.mark.parametrize("name", HOSTILE)
def test_the_name_of_a_class_is_no_code(name):
    module = fx.GraphModule(nn.Module(), graph_of("call_method", "relu"), name)
    text = module.print_readable(print_output=False)
    compile(text, "<text>", "exec")
    assert CODE not in text


def test_the_function_and_what_it_reads_from_are_names():
    graph = graph_of("call_method", "relu")
    graph._codegen._func_name = f"forward(self): {CODE}\ndef forward"
    with pytest.raises(ValueError, match="an identifier"):
        graph.python_code("self")
    with pytest.raises(ValueError, match="an identifier"):
        graph_of("get_attr", "a").python_code(f"{CODE} or self")


# ---------------------------------------------------------------- folders


@pytest.mark.parametrize("name", [n.replace(".", "_") if CODE in n else n for n in HOSTILE])
def test_folders_bring_children_back(name, tmp_path):
    root = nn.Module()
    root.add_module(name, nn.Linear(2, 2))
    root.register_buffer("buffer of " + name, facula.tensor(5.0))
    root.register_parameter("weight of " + name, nn.Parameter(facula.tensor(7.0)))
    graph = fx.Graph()
    x = graph.call_module(name, (graph.placeholder("x"),))
    for kind in ("buffer of ", "weight of "):
        x = graph.call_method("add", (x, graph.get_attr(kind + name)))
    graph.output(x)
    module = fx.GraphModule(root, graph)
    package = f"folder_{abs(hash(name))}"
    module.to_folder(tmp_path / package)
    assert {p.name for p in tmp_path.iterdir()} == {package}
    sys.path.insert(0, str(tmp_path))
    try:
        again = importlib.import_module(package).FxModule()
    finally:
        sys.path.remove(str(tmp_path))
    x = facula.ones(1, 2)
    assert again(x).tolist() == module(x).tolist()


@pytest.mark.parametrize(
    "name", ["../outside", "/outside", "state_dict", "a/b", "x\0y", "..", "n" * 300]
)
def test_no_name_leads_out_of_the_folder(name, tmp_path):
    root = nn.Module()
    root._modules[name] = nn.Linear(2, 2)  # as a file's state sets it
    graph = fx.Graph()
    graph.output(graph.placeholder("x"))
    module = fx.GraphModule(nn.Module(), graph)
    module._modules[name] = root._modules[name]
    folder = tmp_path / "inner" / "folder"
    module.to_folder(folder)
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    expected = {"module.py", "__init__.py", "state_dict.pt", "child-0.pt"}
    assert files == {f"inner/folder/{n}" for n in expected}


def test_the_class_in_a_folder_has_a_name(tmp_path):
    module = fx.GraphModule(nn.Module(), graph_of("call_method", "relu"))
    with pytest.raises(ValueError, match=r"\[to_folder\] an identifier"):
        module.to_folder(tmp_path / "folder", f"A:\n    {CODE}\nclass B")


@pytest.mark.parametrize("name", [n.replace(".", "_") for n in HOSTILE])
def test_attributes_of_any_name_are_guarded(name):
    """The text of guards reads attributes by their names."""

    class Holder(nn.Module):
        def forward(self, x):
            return getattr(self, name)(x) * getattr(self, "factor of " + name)

    module = Holder()
    module.add_module(name, Scale(3.0))
    setattr(module, "factor of " + name, 5)
    run = facula.compile(module, backend="eager", fullgraph=True)
    x = facula.tensor(2.0)
    assert float(run(x).detach()) == 30.0
    setattr(module, "factor of " + name, 7)
    assert float(run(x).detach()) == 42.0
