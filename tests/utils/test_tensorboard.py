"""Event files hold what was added, whatever tensors it came as."""

import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.graph_pb2 import GraphDef

import facula
from facula import nn
from facula.utils.tensorboard import SummaryWriter


def events(folder):
    """The events of all files below a folder; a record is a length, its check, data, its check."""
    found = []
    for path in sorted(folder.rglob("events*")):
        data, place = path.read_bytes(), 0
        while place < len(data):
            size = int.from_bytes(data[place : place + 8], "little")
            found.append(Event.FromString(data[place + 12 : place + 12 + size]))
            place += size + 16
    return found


def values(folder):
    return {v.tag: v for e in events(folder) for v in e.summary.value}


def test_scalars_of_tensors_that_require_grad(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(3):
            loss = facula.tensor(1.0 / (step + 1), requires_grad=True)
            writer.add_scalar("loss", loss * 2, step)
        assert writer.get_logdir() == str(tmp_path)
    steps = [(e.step, v.simple_value) for e in events(tmp_path) for v in e.summary.value]
    assert steps == [(0, 2.0), (1, 1.0), (2, pytest.approx(2 / 3))]


@pytest.mark.parametrize("dtype", [facula.float32, facula.bfloat16, facula.float64, facula.int64])
def test_histograms_count_every_element(tmp_path, dtype):
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_histogram("w", facula.arange(100).to(dtype), 0)
        writer.add_tensor("x", facula.ones(7, dtype=dtype))
    found = values(tmp_path)
    assert found["w"].histo.num == 100 and found["w"].histo.max == 99
    assert found["x"].histo.num == 7 and found["x"].histo.sum == 7


def test_images_texts_curves_and_embeddings(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_image("image", facula.rand(3, 8, 6), 0)
        writer.add_images("images", facula.rand(2, 3, 8, 6), 0)
        writer.add_text("text", "hello", 0)
        writer.add_scalars("both", {"a": facula.tensor(1.0), "b": 2.0}, 0)
        writer.add_pr_curve("pr", facula.tensor([0, 1, 1]), facula.tensor([0.1, 0.5, 0.9]), 0)
        writer.add_embedding(facula.randn(4, 5), metadata=list("abcd"), tag="e", global_step=0)
        writer.add_hparams({"lr": 0.1}, {"accuracy": facula.tensor(0.5)})
    found = values(tmp_path)
    assert (found["image"].image.height, found["image"].image.width) == (8, 6)
    assert found["accuracy"].simple_value == 0.5
    assert found["pr"].metadata.plugin_data.plugin_name == "pr_curves"
    assert len((tmp_path / "00000" / "e" / "tensors.tsv").read_text().splitlines()) == 4


def test_graph_of_a_module(tmp_path):
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_graph(model, facula.ones(1, 2))
    (graph,) = (GraphDef.FromString(e.graph_def) for e in events(tmp_path) if e.graph_def)
    nodes = {n.op: n for n in graph.node}
    assert list(nodes["call_module:1"].input) == [nodes["call_module:0"].name]
