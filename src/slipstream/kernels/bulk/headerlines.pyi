"""Nothing for Python, only for other kernels: see headerlines.pyx."""
