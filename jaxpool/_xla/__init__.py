"""Workarounds for the compilers and for JAX's transformations, one per file.

Each file names the versions that need its workaround. A test in ``tests/xla/test_canaries.py``
shows the effect of its absence, and fails on a version that no longer needs it. ``by_platform`` is
not a workaround: it is the only function that depends on the platform.
"""
