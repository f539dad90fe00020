"""Settings of export under PyTorch's names: accepted, and said to be without effect."""

from facula.core.named_settings import become

become(
    __name__,
    {
        "use_new_tracer_experimental": True,
        "detect_non_strict_fake_tensor_leaks": False,
        "error_on_lifted_constant_tensors": True,
        "enable_auto_functionalized_v2_for_export": True,
        "use_legacy_dynamo_graph_capture": True,
    },
)
