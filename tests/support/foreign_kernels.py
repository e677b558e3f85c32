"""Refuse kernels that PyOpenCL itself would build."""

import pyopencl.elementwise


def refuse_foreign_kernels(monkeypatch):
    def refused(*args, **kwargs):
        raise AssertionError("a kernel of pyopencl")

    makers = [n for n in vars(pyopencl.elementwise) if n.startswith("get_") and "kernel" in n]
    assert "get_fill_kernel" in makers
    for name in makers:
        monkeypatch.setattr(pyopencl.elementwise, name, refused)
