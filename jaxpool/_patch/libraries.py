"""The functions and layers that are replaced in each library, and their stand-ins."""

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from .._errors import message, shown
from .route import AVERAGES, ORIGINALS, run
from .swap import Function, Swap, call_swap, code_swap

# --- stand-ins: their code runs in a function of a library and uses only what it imports ----------


def _flax_max_pool(inputs, window_shape, strides=None, padding="VALID"):
    from jaxpool._patch.route import run

    return run("flax.linen.pooling.max_pool", inputs, window_shape, strides, padding)


def _flax_min_pool(inputs, window_shape, strides=None, padding="VALID"):
    from jaxpool._patch.route import run

    return run("flax.linen.pooling.min_pool", inputs, window_shape, strides, padding)


def _flax_avg_pool(inputs, window_shape, strides=None, padding="VALID", count_include_pad=True):
    from jaxpool._patch.route import run

    return run(
        "flax.linen.pooling.avg_pool", inputs, window_shape, strides, padding, count_include_pad
    )


def _flax_pool(inputs, init, reduce_fn, window_shape, strides, padding):
    from jaxpool._patch.route import run

    return run("flax.linen.pooling.pool", inputs, init, reduce_fn, window_shape, strides, padding)


def _haiku_max_pool(value, window_shape, strides, padding, channel_axis=-1):
    from jaxpool._patch.route import run

    return run("haiku.max_pool", value, window_shape, strides, padding, channel_axis)


def _haiku_avg_pool(value, window_shape, strides, padding, channel_axis=-1):
    from jaxpool._patch.route import run

    return run("haiku.avg_pool", value, window_shape, strides, padding, channel_axis)


def _keras_max_pool(inputs, pool_size, strides=None, padding="valid", data_format=None):
    from jaxpool._patch.route import run

    return run("keras.ops.max_pool", inputs, pool_size, strides, padding, data_format)


def _keras_average_pool(inputs, pool_size, strides=None, padding="valid", data_format=None):
    from jaxpool._patch.route import run

    return run("keras.ops.average_pool", inputs, pool_size, strides, padding, data_format)


def _keras_adaptive_max_pool(inputs, output_size, data_format=None):
    from jaxpool._patch.route import run

    return run("keras.ops.adaptive_max_pool", inputs, output_size, data_format)


def _keras_adaptive_average_pool(inputs, output_size, data_format=None):
    from jaxpool._patch.route import run

    return run("keras.ops.adaptive_average_pool", inputs, output_size, data_format)


def _layer_call(name: str) -> Function:
    """Return a stand-in for ``__call__`` of the layer ``name``."""

    def __call__(self: Any, x: Any, *, key: Any = None) -> Any:
        return run(name, self, x)

    return __call__


# --- the swaps of each library --------------------------------------------------------------------


def _functions(module: str, *stand_ins: Function) -> Iterator[Swap]:
    """Yield swaps of functions; a stand-in is named ``_library_function``."""
    library_module = importlib.import_module(module)
    for stand_in in stand_ins:
        name = stand_in.__name__.split("_", 2)[2]
        yield code_swap(f"{module}.{name}", getattr(library_module, name), stand_in)


def _equinox() -> Iterator[Swap]:
    module = importlib.import_module("equinox.nn")
    for name in ("equinox.nn.Pool", *AVERAGES, "equinox.nn.AdaptivePool"):
        yield call_swap(name, getattr(module, name.rpartition(".")[2]), _layer_call(name))


def _keras() -> Iterator[Swap]:
    """Return swaps of Keras's functions, which its layers call; needs the JAX backend."""
    backend = importlib.import_module("keras.config").backend()
    if backend != "jax":
        raise NotImplementedError(
            message(
                f"Keras runs on the backend {shown(backend)}.",
                "jaxpool computes with JAX.",
                "Set KERAS_BACKEND=jax in the environment before Keras is imported.",
            )
        )
    adaptive = _keras_adaptive_max_pool, _keras_adaptive_average_pool
    return _functions("keras.ops", _keras_max_pool, _keras_average_pool, *adaptive)


_SWAP_FUNCTIONS: dict[str, Callable[[], Iterator[Swap]]] = {
    "flax": lambda: _functions(
        "flax.linen.pooling", _flax_max_pool, _flax_min_pool, _flax_avg_pool, _flax_pool
    ),
    "haiku": lambda: _functions("haiku", _haiku_max_pool, _haiku_avg_pool),
    "equinox": _equinox,
    "keras": _keras,
}


@functools.lru_cache(maxsize=16)
def swaps_of(library: str) -> tuple[Swap, ...]:
    """Return the swaps of an installed library, created once, before the library is patched."""
    swaps = tuple(_SWAP_FUNCTIONS[library]())
    ORIGINALS.update({swap.name: swap.original for swap in swaps})
    return swaps
