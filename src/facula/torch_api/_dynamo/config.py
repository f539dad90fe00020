"""Settings of capture under PyTorch's names: `facula._dynamo.config`.

Takes: assignments, `patch`. Gives: the settings. Keeps true: those of `facula.capture.config` are the settings
themselves; PyTorch's others are kept, and said to be without effect when they get another value; any other name
is an error.
"""

from facula.capture import config as _config
from facula.core.named_settings import attribute, become, several

#: what PyTorch's programs set that has nothing to change here, with PyTorch's defaults
_WITHOUT_EFFECT = {
    "allow_empty_graphs": False, "allow_ignore_mark_dynamic": False, "allow_rnn": False,
    "allow_unspec_int_on_nn_module": False, "allowed_functions_module_string_ignorelist": set(),
    "automatic_dynamic_local_pgo": True, "automatic_dynamic_remote_pgo": None,
    "automatic_dynamic_shapes_mark_as": "dynamic", "base_dir": None, "caching_precompile": False,
    "capture_autograd_function": True, "capture_func_transforms": True,
    "capture_profiler_record_function": False, "capture_sparse_compute": True,
    "compiled_autograd_kwargs_override": {}, "cprofile": False,
    "cudagraph_backend_keep_input_mutation": False,
    "cudagraph_backend_support_input_mutation": False, "dead_code_elimination": True,
    "debug_dir_root": None, "dont_skip_tracing": False,
    "dynamic_shapes": True, "enable_compiler_collectives": False,
    "enable_cpp_framelocals_guard_eval": True, "enable_cpp_guard_manager": True,
    "enable_cpp_symbolic_shape_guards": False, "enable_faithful_generator_behavior": True,
    "enable_trace_contextlib": True, "enable_trace_unittest": False,
    "error_on_nested_jit_trace": True,
    "fake_tensor_cache_crosscheck_enabled": False, "fake_tensor_cache_enabled": True,
    "fake_tensor_disable_inference_mode": True, "force_nn_module_property_static_shapes": True,
    "force_parameter_static_shapes": True, "generate_pycode": False, "guard_nn_modules": True,
    "guard_nn_modules_using_dict_tags": True, "ignore_logger_methods": set(),
    "ignore_logging_functions": set(), "inline_inbuilt_nn_modules": True,
    "install_free_tensors": False, "log_compilation_metrics": True, "log_file_name": None,
    "log_graph_in_out_metadata": False, "minimum_call_count": 1, "nested_graph_breaks": False,
    "nontraceable_tensor_subclasses": set(), "numpy_default_complex": "complex128",
    "numpy_default_float": "float64", "numpy_default_int": "int64",
    "only_allow_pt2_compliant_ops": False, "optimize_ddp": True, "optimize_ddp_lazy_compile": False,
    "prefer_deferred_runtime_asserts_over_guards": False, "prepare_freezing": False,
    "raise_on_ctx_manager_usage": True, "raise_on_unsafe_aot_autograd": False,
    "record_compile_time_instruction_count": False, "record_runtime_overhead": True,
    "reorderable_logging_functions": set(), "replay_record_enabled": False,
    "report_guard_failures": True, "repro_after": None, "repro_forward_only": False,
    "repro_ignore_non_fp": False, "repro_level": 2, "repro_tolerance": 0.001,
    "rewrite_assert_with_torch_assert": True, "run_gc_after_compile": True,
    "same_two_models_use_fp64": True, "skip_fsdp_guards": True,
    "skip_fwd_side_effects_in_bwd_under_checkpoint": False, "skip_nnmodule_hook_guards": True,
    "skip_no_tensor_aliasing_guards_on_parameters": True,
    "skip_tensor_guards_with_matching_dict_tags": True, "skip_torchrec": True,
    "skipfiles_inline_module_allowlist": {}, "specialize_float": False, "specialize_int": False,
    "strict_precompile": False, "trace_autograd_ops": False, "trace_numpy": True,
    "traceable_tensor_subclasses": set(), "use_graph_deduplication": False,
    "use_lazy_graph_module": True, "use_numpy_random_stream": False,
    "use_recursive_dict_tags_for_guards": False, "verify_correctness": False,
    "wrap_top_frame": False,
}  # fmt: skip

become(
    __name__,
    _WITHOUT_EFFECT,
    {
        **several(_config, _config.names()),
        **{alias: attribute(_config, name) for alias, name in _config._ALIASES.items()},
    },
)
