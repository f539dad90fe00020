"""Settings under PyTorch's names: those that act, those that do not, and `patch` in its forms."""

import warnings
from unittest import mock

import pytest

import facula
import facula._functorch.config
import facula.compiler.config
import facula.fx.experimental._config as sizes
from facula._export import config as export_config


def test_a_setting_that_acts():
    from facula.fx.experimental.proxy_tensor import make_fx

    def symbols():
        module = make_fx(lambda x: x + 1, tracing_mode="symbolic")(facula.ones(5, 5))
        return len(module.shape_env.hints)

    assert symbols() == 1
    with sizes.patch(use_duck_shape=False):
        assert symbols() == 2
    assert sizes.use_duck_shape
    assert symbols() == 1


def test_settings_of_the_compiler_are_the_settings_themselves():
    settings = facula.compiler.config
    before = facula._dynamo.config.recompile_limit
    with settings.patch({"recompile_limit": 3}):
        assert facula._dynamo.config.recompile_limit == 3
    assert facula._dynamo.config.recompile_limit == before


def test_settings_without_effect_say_so_once():
    with pytest.warns(UserWarning, match="no effect"), sizes.patch(translation_validation=True):
        assert sizes.translation_validation
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sizes.translation_validation = True
        sizes.translation_validation = False


@pytest.mark.filterwarnings("ignore:.*no effect")
def test_mock_gives_the_value_before_back(monkeypatch):
    capture = facula._dynamo.config
    before = capture.recompile_limit
    capture.recompile_limit = before + 3
    monkeypatch.setattr(capture, "guard_nn_modules", False)
    with (
        mock.patch("facula._dynamo.config.recompile_limit", 2),
        mock.patch.object(capture, "guard_nn_modules", True),
    ):
        assert (capture.recompile_limit, capture.guard_nn_modules) == (2, True)
    assert (capture.recompile_limit, capture.guard_nn_modules) == (before + 3, False)
    capture.recompile_limit = before


def test_a_deleted_setting_is_not_there_until_it_is_set():
    value = sizes.use_duck_shape
    del sizes.use_duck_shape
    assert not hasattr(sizes, "use_duck_shape")
    with pytest.raises(AttributeError, match="setting"):
        del sizes.use_duck_shape
    sizes.use_duck_shape = value
    assert sizes.use_duck_shape == value


def test_older_names_of_settings_are_the_settings():
    capture = facula._dynamo.config
    with capture.patch(cache_size_limit=3, fail_on_cache_limit_hit=True):
        assert (capture.recompile_limit, capture.fail_on_recompile_limit_hit) == (3, True)


def test_settings_of_other_compilers_are_kept_and_said_to_do_nothing():
    from facula._functorch import config as ahead_of_time

    with pytest.warns(UserWarning, match="optimize_ddp has no effect"):
        facula._dynamo.config.optimize_ddp = False
    assert facula._dynamo.config.optimize_ddp is False
    facula._dynamo.config.optimize_ddp = True
    with pytest.warns(UserWarning, match="donated_buffer has no effect"):
        ahead_of_time.donated_buffer = False
    ahead_of_time.donated_buffer = True


def test_patch_decorates_functions_and_classes():
    seen = []

    @export_config.patch("use_new_tracer_experimental", True)
    def function():
        seen.append(export_config.use_new_tracer_experimental)

    @export_config.patch(error_on_lifted_constant_tensors=True)
    class Tests:
        def test_one(self):
            seen.append(export_config.error_on_lifted_constant_tensors)

    function()
    Tests().test_one()
    assert seen == [True, True]


def test_saved_settings_come_back():
    saved = sizes.save_config()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sizes.extended_debug_cpp = True
    assert sizes.save_config_portable()["extended_debug_cpp"]
    sizes.load_config(saved)
    assert not sizes.extended_debug_cpp


def test_unknown_names_are_errors():
    with pytest.raises(AttributeError, match="setting"):
        sizes.no_such_setting  # noqa: B018
    with pytest.raises(AttributeError, match="setting"):
        sizes.patch(no_such_setting=1)
    with pytest.raises(AttributeError, match="setting"):
        sizes.no_such_setting = 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("check_custom_op_aliasing", True),
        ("force_autograd_cache", False),
        ("enable_activation_offloading", False),
        ("fake_tensor_prefer_device_type", None),
    ],
)
def test_settings_of_differentiation_have_pytorchs_names_and_defaults(name, value):
    settings = facula._functorch.config
    assert getattr(settings, name) == value
