"""Settings of export under PyTorch's names: one looks for tensors that outlive an export; the others have no effect."""

from facula.core.named_settings import become
from facula.export import leaks

become(
    __name__,
    {
        "use_new_tracer_experimental": True,
        "error_on_lifted_constant_tensors": True,
        "enable_auto_functionalized_v2_for_export": True,
        "use_legacy_dynamo_graph_capture": True,
    },
    {"detect_non_strict_fake_tensor_leaks": leaks.SETTING},
)
