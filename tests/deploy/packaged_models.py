"""Small models and their packages."""

import facula
from facula import export, nn
from facula.deploy.aot import compile_and_package
from facula.runtime import cpu_features

#: one variant is enough where native code is not what is tested
HERE = cpu_features.parts(cpu_features.detected())[:1]


def mlp():
    facula.manual_seed(0)
    layers = (nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 5), nn.Softmax(-1))
    return nn.Sequential(*layers).eval()


def batch_program(module, path, variants=HERE, least=2, most=300):
    batch = export.Dim("batch", min=least, max=most)
    program = export.export(module, (facula.randn(4, 16),), dynamic_shapes=({0: batch},))
    return compile_and_package(program, path, variants=variants)


def packaged(module, args, path, dynamic_shapes=None, variants=HERE):
    program = export.export(module, args, dynamic_shapes=dynamic_shapes)
    return compile_and_package(program, str(path), variants=variants)


def mlp_and_path(factory):
    """(the module, the path of its package) with a batch of 2 to 300."""
    module = mlp()
    path = factory.mktemp("package") / "mlp.pt2"
    batch_program(module, path)
    return module, str(path)
