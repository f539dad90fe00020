"""Names of PyTorch's extension module that programs read for profiles."""

import copy
import json
import pickle

import facula
from facula.profiler import profile
from facula.torch_api._C import _profiler


def test_settings_are_accepted_and_pickled():
    config = _profiler._ExperimentalConfig(verbose=True, profile_all_threads=True)
    for again in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert again.verbose and again.profile_all_threads and again.profiler_metrics == []
    with profile(with_stack=True, experimental_config=config) as p:
        facula.ones(3) + 1
    assert any("add" in event.name for event in p.events())


def test_stacks_are_gathered_now_and_named_later():
    def inner():
        return _profiler.gather_traceback()

    frames = _profiler.symbolize_tracebacks([inner(), inner()])
    assert [f[0]["name"] for f in frames] == ["inner", "inner"]
    assert frames[0][1]["name"] == "test_stacks_are_gathered_now_and_named_later"
    assert frames[0][0]["filename"] == __file__ and frames[0][0]["line"] > 20
    assert _profiler.symbolize_tracebacks([_profiler.gather_traceback(python=False)]) == [[]]


def test_settings_of_calls_are_values(tmp_path):
    with profile(record_shapes=True) as p:
        facula.ones(2, 6).as_strided([4, 3], [1, 4])
    (event,) = [e for e in p.events() if e.name == "aten::as_strided"]
    assert event.concrete_inputs[1:3] == [[4, 3], [1, 4]] and event.input_shapes[0] == [2, 6]
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    records = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (record,) = [r for r in records if r["name"] == "aten::as_strided"]
    assert record["args"]["Concrete Inputs"][1:3] == ["[4, 3]", "[1, 4]"]


def test_arrows_to_gradients_are_numbered_from_one(tmp_path):
    with profile() as p:
        x = facula.ones(1, requires_grad=True)
        (x.exp() * 2).sum().backward()
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    records = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    starts = [r["id"] for r in records if r.get("cat") == "fwdbwd" and r["ph"] == "s"]
    assert sorted(starts) == list(range(1, len(starts) + 1)) and len(starts) >= 2
