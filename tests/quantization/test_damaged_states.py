"""State dictionaries of quantized layers whose entries are of another kind or size."""

import pytest

import facula
from facula.ao.nn import quantized as nnq
from facula.ao.nn.quantized import dynamic as nnqd

LAYERS = {
    "Linear": lambda: nnq.Linear(3, 4),
    "Conv2d": lambda: nnq.Conv2d(2, 4, 3),
    "ConvTranspose2d": lambda: nnq.ConvTranspose2d(2, 4, 3),
    "dynamic.Linear": lambda: nnqd.Linear(3, 4),
    "dynamic.LSTM": lambda: nnqd.LSTM(3, 2),
    "dynamic.GRUCell": lambda: nnqd.GRUCell(3, 2),
    "QFunctional": nnq.QFunctional,
}
JUNK = {
    "None": None,
    "text": "1.0",
    "number": 2**70,
    "three": (facula.ones(2, 3), None, None),
    "numbers": (1, 2),
    "complex": facula.tensor(1j),
    "vector": facula.ones(2),
    "empty": facula.ones(0),
    "meta": facula.ones(1, device="meta"),
    "bias": (facula.quantize_per_tensor(facula.ones(4, 3), 0.1, 0, facula.qint8), "bias"),
}
#: entries that may be of any kind, or whose kind another entry decides
FREE = ("dtype", "bias")


@pytest.mark.parametrize("kind", JUNK)
@pytest.mark.parametrize("name", LAYERS)
def test_an_entry_of_another_kind_is_named(name, kind):
    whole = LAYERS[name]().state_dict()
    for key in whole:
        if key.endswith(FREE) or (key.endswith(("scale", "zero_point")) and kind == "number"):
            continue
        state = dict(whole)
        state[key] = JUNK[kind]
        with pytest.raises(RuntimeError, match="(?s)^\\[.*hint: "):
            LAYERS[name]().load_state_dict(state)


def test_entries_of_observers():
    for kind in (
        facula.ao.quantization.PerChannelMinMaxObserver,
        facula.ao.quantization.FakeQuantize,
    ):
        state = kind().state_dict()
        for key in ("min_val", "scale"):
            if key in state:
                state[key] = (1.0, 2.0)
                with pytest.raises(RuntimeError, match="(?s)^\\[.*hint: "):
                    kind().load_state_dict(state)
