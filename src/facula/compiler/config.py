"""Settings of `compile` under the names of PyTorch's `compiler.config`.

Takes: assignments. Gives: the settings. Keeps true: those of capture and of the caches are the settings
themselves; the others are
accepted, and said to be without effect.
"""

from facula.capture import config as _capture
from facula.compiler import options as _options
from facula.core.named_settings import become, several

_CAPTURE = (
    "assume_static_by_default automatic_dynamic_shapes recompile_limit accumulated_recompile_limit "
    "dynamic_sources verbose capture_scalar_outputs capture_dynamic_output_shape_ops fail_on_recompile_limit_hit"
).split()

become(
    __name__,
    {
        "job_id": None,
        "pgo_extra_read_key": None,
        "pgo_extra_write_key": None,
        "cache_key_tag": "",
        "dynamic_values": "",
        "unbacked_sources": "",
        "force_cudagraph_gc": False,
        "dynamic_shapes": True,
        "log_file_name": None,
        "allow_unspec_int_on_nn_module": False,
        "skip_tensor_guards_with_matching_dict_tags": True,
        "enable_cpp_symbolic_shape_guards": False,
        "wrap_top_frame": False,
        "reorderable_logging_functions": set(),
    },
    {
        **several(_capture, _CAPTURE),
        "force_disable_caches": _options.setting("force_disable_caches"),
    },
)
