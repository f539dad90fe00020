"""The domain libraries: `facula.vision`, `facula.audio`, `facula.text`, `facula.arrow`, `facula.csprng`.

Takes: everything below. Gives: packages that are found under the short names (`second_names`), and the
operators of compiled libraries that other packages bring for PyTorch (`facula.ops.load_library`).
Keeps true: nothing here is imported before it is named.
"""
