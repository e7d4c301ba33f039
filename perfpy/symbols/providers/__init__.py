"""Symbols of what is no ordinary file: the kernel, JIT compilers' maps and dumps; what is missing."""
