"""What torchdata's nodes ask for by PyTorch's private names."""

import facula


def test_names_of_nodes():
    from facula._utils import ExceptionWrapper
    from facula.utils.data._utils.pin_memory import pin_memory

    assert ExceptionWrapper.__name__ == "ExceptionWrapper"
    assert pin_memory({"a": [1, "b"]}) == {"a": [1, "b"]}
    assert callable(facula.utils.data._utils.collate.default_collate)
