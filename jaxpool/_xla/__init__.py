"""Workarounds for the compilers and for JAX's transformations, one per file.

Each file names the versions that need its workaround. A test shows the effect of its absence, and
fails on a version that no longer needs it: most are in ``tests/xla/test_canaries.py``, that of
``lost_rules`` in ``tests/autodiff/test_lost_rules.py``, and those of ``crop`` and ``slice_stride``,
which need several devices, in ``tests/support/eight_devices.py``. ``by_platform`` is not a
workaround: it is the only function that depends on the platform.
"""
