"""Event files hold what was added, whatever tensors it came as; tensorboardX's messages read them."""

import io
import struct
import sys
import wave
import zlib

import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.graph_pb2 import GraphDef
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

import facula
from facula import nn
from facula.utils.tensorboard import FileWriter, RecordWriter, SummaryWriter, summary


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
    assert [d.size for d in found["x"].tensor.tensor_shape.dim] == [7]


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


def pixels(data):
    """The colors of a PNG file whose rows have no filter."""
    place, parts = 8, {}
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        (check,) = struct.unpack(">I", data[place + 8 + size : place + 12 + size])
        assert check == zlib.crc32(kind + body)
        parts[kind], place = body, place + 12 + size
    wide, high, _, color = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(high, -1)
    assert color == 2 and not rows[:, 0].any()
    return rows[:, 1:].reshape(high, wide, 3)


def test_checks_of_records_are_crc_32c():
    file = io.BytesIO()
    RecordWriter(file).write(b"123456789")
    check = 0xE3069283  # the published check of these nine bytes
    masked = ((check >> 15 | check << 17) + 0xA282EAD8) % 2**32
    assert file.getvalue()[-4:] == struct.pack("<I", masked)


def test_no_library_is_needed(tmp_path, monkeypatch):
    for name in ("tensorboard", "tensorboardX", "google.protobuf", "PIL"):
        monkeypatch.setitem(sys.modules, name, None)
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 0.0, 0)
        writer.add_image("b", facula.zeros(3, 2, 2))
    assert sorted(values(tmp_path)) == ["a", "b"]


def test_zeros_arrive_and_steps_may_be_tensors(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("plain", 0, facula.tensor(4))
        writer.add_scalar("new", 0.25, -1, new_style=True, double_precision=True)
    plain, new = (e for e in events(tmp_path) if e.summary.value)
    assert plain.step == 4 and plain.summary.value[0].HasField("simple_value")
    assert new.step == -1 and struct.unpack("<d", new.summary.value[0].tensor.tensor_content) == (
        0.25,
    )


def test_a_histogram_counts_between_its_limits(tmp_path):
    data = facula.tensor([-3.0, 0.5, 0.5, 2.0, 8.0])
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("default", data)
        writer.add_histogram("given", data, bins=[-4, 0, 1, 3, 9, 20])
        writer.add_histogram("few", facula.arange(64.0), bins=64, max_bins=8)
    found = values(tmp_path)
    given = found["given"].histo
    assert list(given.bucket_limit) == [-4, 0, 1, 3, 9] and list(given.bucket) == [0, 1, 2, 1, 1]
    assert (given.min, given.max, given.sum) == (-3, 8, 8) and given.sum_squares == 77.5
    assert list(found["few"].histo.bucket) == [0] + [8] * 8
    total, limits = 0, list(found["default"].histo.bucket_limit)
    for low, high, count in zip(
        limits[:-1], limits[1:], list(found["default"].histo.bucket)[1:], strict=True
    ):
        assert count == sum(low <= x < high for x in data.tolist())
        total += count
    assert total == 5


def test_images_keep_every_pixel(tmp_path):
    image = facula.randint(0, 256, (3, 4, 5), dtype=facula.uint8)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("bytes", image)
        writer.add_image("numbers", image.permute(1, 2, 0) / 255, dataformats="HWC")
        writer.add_image("grey", image[0], dataformats="HW")
        writer.add_images("many", image.expand(10, 3, 4, 5))
    found = {tag: pixels(v.image.encoded_image_string) for tag, v in values(tmp_path).items()}
    expected = image.permute(1, 2, 0).numpy()
    assert (found["bytes"] == expected).all()
    assert abs(found["numbers"].astype(int) - expected).max() <= 1
    assert (found["grey"] == expected[:, :, :1]).all()
    # eight in a row, then two; what is left is black
    assert (found["many"][:4] == np.tile(expected, (1, 8, 1))).all()
    assert (found["many"][4:, :10] == np.tile(expected, (1, 2, 1))).all()
    assert not found["many"][4:, 10:].any()


def test_sound_video_boxes_and_mesh(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_audio("sound", facula.tensor([0.0, 0.5, -2.0]), sample_rate=8000)
        writer.add_video("video", facula.rand(2, 3, 3, 4, 6))
        writer.add_image_with_boxes("boxes", facula.zeros(3, 9, 9), [[1, 1, 7, 7]], labels="x")
        writer.add_mesh("mesh", facula.rand(1, 4, 3), faces=facula.zeros(1, 2, 3).int())
    found = values(tmp_path)
    with wave.open(io.BytesIO(found["sound"].audio.encoded_audio_string)) as file:
        assert struct.unpack("<3h", file.readframes(3)) == (0, 16383, -32767)
    assert (
        found["video"].image.encoded_image_string[:3] == b"GIF" and found["video"].image.width == 12
    )
    assert (pixels(found["boxes"].image.encoded_image_string)[1, 1] == [255, 0, 0]).all()
    assert [d.size for d in found["mesh_FACE"].tensor.tensor_shape.dim] == [1, 2, 3]


def test_precision_and_recall(tmp_path):
    labels, guesses = facula.tensor([0, 1, 1, 0]), facula.tensor([0.1, 0.4, 0.9, 0.6])
    with SummaryWriter(tmp_path) as writer:
        writer.add_pr_curve("pr", labels, guesses, num_thresholds=11)
    message = values(tmp_path)["pr"].tensor
    rows = np.frombuffer(message.tensor_content, np.float32).reshape(6, 11)
    for step in range(11):
        taken = [g >= step / 10 - 1e-6 for g in guesses.tolist()]
        right = sum(t and one for t, one in zip(taken, labels.tolist(), strict=True))
        assert rows[0, step] == right and rows[1, step] == sum(taken) - right
        assert rows[4, step] == pytest.approx(right / max(sum(taken), 1e-7))
        assert rows[5, step] == right / 2


def test_hyperparameters_of_a_run(tmp_path):
    given = {"lr": 0.1, "name": "x", "deep": True, "size": facula.tensor(3)}
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams(given, {"loss": 0.5}, {"lr": [0.1, 0.2]}, run_name="run")
    found = values(tmp_path / "run")
    read = {
        tag: HParamsPluginData.FromString(value.metadata.plugin_data.content)
        for tag, value in found.items()
        if tag != "loss"
    }
    start = read["_hparams_/session_start_info"].session_start_info.hparams
    assert start["lr"].number_value == 0.1 and start["name"].string_value == "x"
    assert start["deep"].bool_value is True and start["size"].number_value == 3
    infos = {i.name: i for i in read["_hparams_/experiment"].experiment.hparam_infos}
    assert [v.number_value for v in infos["lr"].domain_discrete.values] == [0.1, 0.2]
    assert read["_hparams_/experiment"].experiment.metric_infos[0].name.tag == "loss"


def test_a_graph_that_asks_for_sizes_is_seen_with_its_inputs(tmp_path):
    class Asks(nn.Module):
        def forward(self, x):
            return sum(row.sin() for row in x)

    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(Asks(), facula.ones(3, 2))
    (graph,) = (GraphDef.FromString(e.graph_def) for e in events(tmp_path) if e.graph_def)
    assert sum("sin" in node.op for node in graph.node) == 3


def test_a_closed_writer_begins_another_file(tmp_path):
    writer = SummaryWriter(tmp_path, purge_step=7)
    writer.close()
    writer.add_scalar("late", 1.0)
    writer.close()
    assert len(list(tmp_path.iterdir())) == 2 and "late" in values(tmp_path)
    assert any(e.session_log.status == 1 and e.step == 7 for e in events(tmp_path))
    file = FileWriter(str(tmp_path / "own"))
    file.add_summary(summary.scalar("x", 1.0))
    file.close()
    with pytest.raises(OSError, match="an open file was required"):
        file.add_summary(summary.scalar("x", 1.0))
    file.reopen()
    file.add_summary(summary.text("x", "y"))
    file.close()
    assert values(tmp_path / "own")["x/text_summary"].tensor.string_val == [b"y"]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda w: w.add_scalar("x", facula.ones(2)), AssertionError, "one element"),
        (lambda w: w.add_scalar("x", object()), NotImplementedError, "numpy array or torch tensor"),
        (lambda w: w.add_histogram("x", facula.ones(0)), ValueError, "no element"),
        (lambda w: w.add_histogram("x", [2.0], bins=[0, 1]), ValueError, "histogram is empty"),
        (lambda w: w.add_image("x", facula.ones(2)), AssertionError, "a letter of N, C, H, W"),
        (lambda w: w.add_image("x", facula.ones(2, 2, 2, 2)), AssertionError, "a letter of"),
        (lambda w: w.add_images("x", facula.ones(1, 2, 2, 2)), AssertionError, "1 or 3 colors"),
        (lambda w: w.add_hparams(3, {}), TypeError, "hparam_dict"),
        (lambda w: w.add_hparams({"a": [1]}, {}), ValueError, "value should be one of"),
        (lambda w: w.add_embedding(facula.ones(3)), AssertionError, "mat should be 2D"),
        (lambda w: w.add_embedding(facula.ones(3, 2), ["a"]), AssertionError, "labels with data"),
        (lambda w: w.add_audio("x", facula.ones(2, 3)), AssertionError, "1 dimensional"),
        (lambda w: w.add_histogram_raw("x", 0, 1, 1, 1, 1, [1], []), ValueError, "bucket_limits"),
        (lambda w: SummaryWriter(w.log_dir, max_queue=-1), ValueError, "max_queue >= 0"),
        (lambda w: summary.Summary(wrong=1), TypeError, "one of the fields"),
    ],
)
def test_errors_say_what_is_wanted(tmp_path, call, kind, text):
    with SummaryWriter(tmp_path) as writer, pytest.raises(kind, match=text):
        call(writer)
