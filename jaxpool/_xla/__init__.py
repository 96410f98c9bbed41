"""Workarounds for the compilers and for JAX's transformations, one a file.

Each file names the versions that it is for. A test in ``tests/xla/test_canaries.py`` shows what
happens without the workaround, and fails on a version that no longer needs it. ``by_platform`` is
no workaround: it is the one function that asks for the platform.
"""
