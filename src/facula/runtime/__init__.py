"""What stands between kernels as text or files and kernels that run: CPU features, compiler, cache,
libraries.

Takes C text from the code generator and the libraries built with the package; gives paths of shared
libraries that this machine can run.  Keeps true: nothing here looks inside a kernel, and nothing
runs a compiler unless asked to.
"""
