"""Models that run without Python: packages with native code, and files for the mobile runtime.

Takes: exported programs and modules. Gives: `aot` (packages), `mobile` (files for prebuilt kernels),
`model` (a package in this process), `native` (the C runtime, in the folder of that name).
Keeps true: nothing of this is imported before it is asked for; a package is data and native code:
reading one runs no Python and opens no pickle.
"""
