"""Settings under PyTorch's names: those that act, those that do not, and `patch` in its forms."""

import warnings

import pytest

import facula
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
        del sizes.translation_validation
    assert not sizes.translation_validation


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
