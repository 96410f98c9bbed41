"""Pooling layers of the neural network libraries: ``linen``, ``nnx``, ``haiku``, ``equinox``.

Each is a module of its own, imported by name, such as ``from jaxpool.layers import linen``, so that
nobody needs a library that they do not use. All have the same layers. A layer holds the static
settings of an op, spelled and meant as there, and calls it; only ``GeMPool`` learns anything.
"""
