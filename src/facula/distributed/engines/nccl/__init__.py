"""`nccl`: tensors in the memory of NVIDIA's devices, by NCCL and the CUDA driver.

Takes: libraries of C that the wheel `nvidia-nccl-cu12` or `-cu13` and the driver bring. Gives: `library`, `driver`,
`communicator`, which need the standard library only.
Keeps true: nothing is loaded by importing this.
"""
