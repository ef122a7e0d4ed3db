"""Kernels of CUDA devices, under the names of those in `kernels/cpu`; formulas are those of `kernels/`."""
