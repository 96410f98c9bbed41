"""Binary morphology.

Of a set ``X`` and a structure ``B``: the erosion holds the places where ``B`` fits into ``X``, the
dilation those that ``B`` reaches from ``X``. Both are minima and maxima of truth values.

Source: Serra 1982, "Image analysis and mathematical morphology"; Soille 2004, "Morphological image
analysis".
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._errors import message, public, renamed
from .._geometry.arguments import integer
from .._numerics.checks import check_real
from ..ops._dispatch import Op, call
from ..reductions import MAX, MIN, Reduction
from ._arguments import LARGEST_ORIGIN, Neighborhood, Request, neighborhood, request
from ._extreme import extreme
from ._static import Footprint, footprint_of, number


@public
def binary_erosion(
    x: ArrayLike,
    structure: Any = None,
    iterations: int = 1,
    mask: ArrayLike | None = None,
    *,
    border_value: int = 0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Binary erosion: where the structure fits into the elements that are not zero.

    ``y[i] = all over t of (x[i + t] != 0)``, ``t`` running over the places where ``structure`` is
    True; ``iterations`` times.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      structure: boolean array with an axis for each filtered axis, static; default an element and
        its neighbours along each axis.
      iterations: how often, >= 1; less than 1 is until nothing changes.
      mask: array of the shape of ``x``; elements where it is zero stay as they are.
      border_value: 0 or 1, what is outside of ``x``.
      origin: an int, or one for each filtered axis: the window lies so many elements further back.
      axes: an int or several, the axes that are filtered; default all. The others are batch axes.
    Returns:
      Boolean array of the shape of ``x``.
    Derivatives: none; the result is boolean.
    Edge cases: NaN counts as not zero. An empty array gives an empty result.
    Raises:
      TypeError: a setting is not of its kind, or ``x`` is complex.
      ValueError: a setting is out of range, has the wrong length or does not fit ``x``.
    References: Serra 1982, "Image analysis and mathematical morphology"; scipy.ndimage
      ``binary_erosion``.
    Example:
      >>> binary_erosion(jnp.array([0, 1, 1, 1, 1, 0]))
      Array([False, False,  True,  True, False, False], dtype=bool)
    """
    return call(
        _EROSION, x, (mask,), structure=structure, iterations=iterations,
        border_value=border_value, origin=origin, axes=axes,
    )  # fmt: skip


@public
def binary_dilation(
    x: ArrayLike,
    structure: Any = None,
    iterations: int = 1,
    mask: ArrayLike | None = None,
    *,
    border_value: int = 0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Binary dilation: what the structure reaches from the elements that are not zero.

    ``y[i] = any over t of (x[i - t] != 0)``, ``t`` running over the places where ``structure`` is
    True; ``iterations`` times.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      structure, iterations, mask, border_value, origin, axes: as in :func:`binary_erosion`.
    Returns:
      Boolean array of the shape of ``x``.
    Derivatives: none; the result is boolean.
    Edge cases: as :func:`binary_erosion`.
    Raises:
      TypeError, ValueError: as :func:`binary_erosion`.
    References: Serra 1982, "Image analysis and mathematical morphology"; scipy.ndimage
      ``binary_dilation``.
    Example:
      >>> binary_dilation(jnp.array([0, 0, 1, 0, 0, 0]), iterations=2)
      Array([ True,  True,  True,  True,  True, False], dtype=bool)
    """
    return call(
        _DILATION, x, (mask,), structure=structure, iterations=iterations,
        border_value=border_value, origin=origin, axes=axes,
    )  # fmt: skip


@public
def binary_opening(
    x: ArrayLike,
    structure: Any = None,
    iterations: int = 1,
    *,
    origin: int | Sequence[int] = 0,
    mask: ArrayLike | None = None,
    border_value: int = 0,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Binary opening: an erosion and then a dilation, which takes away what is small.

    ``y = dilation(erosion(x))``, each ``iterations`` times.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      structure, iterations, origin, mask, border_value, axes: as in :func:`binary_erosion`.
    Returns:
      Boolean array of the shape of ``x``.
    Derivatives: none; the result is boolean.
    Edge cases: as :func:`binary_erosion`.
    Raises:
      TypeError, ValueError: as :func:`binary_erosion`.
    References: Soille 2004, "Morphological image analysis", chapter 4; scipy.ndimage
      ``binary_opening``.
    Example:
      >>> binary_opening(jnp.array([1, 0, 1, 1, 1, 0]))
      Array([False, False,  True,  True,  True, False], dtype=bool)
    """
    return call(
        _OPENING, x, (mask,), structure=structure, iterations=iterations,
        border_value=border_value, origin=origin, axes=axes,
    )  # fmt: skip


@public
def binary_closing(
    x: ArrayLike,
    structure: Any = None,
    iterations: int = 1,
    *,
    origin: int | Sequence[int] = 0,
    mask: ArrayLike | None = None,
    border_value: int = 0,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Binary closing: a dilation and then an erosion, which fills what is small.

    ``y = erosion(dilation(x))``, each ``iterations`` times.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      structure, iterations, origin, mask, border_value, axes: as in :func:`binary_erosion`.
    Returns:
      Boolean array of the shape of ``x``.
    Derivatives: none; the result is boolean.
    Edge cases: as :func:`binary_erosion`.
    Raises:
      TypeError, ValueError: as :func:`binary_erosion`.
    References: Soille 2004, "Morphological image analysis", chapter 4; scipy.ndimage
      ``binary_closing``.
    Example:
      >>> binary_closing(jnp.array([0, 1, 1, 0, 1, 1, 0]))
      Array([False,  True,  True,  True,  True,  True, False], dtype=bool)
    """
    return call(
        _CLOSING, x, (mask,), structure=structure, iterations=iterations,
        border_value=border_value, origin=origin, axes=axes,
    )  # fmt: skip


# --- settings -------------------------------------------------------------------------------------


def _canonical(
    structure: Any, iterations: Any, border_value: Any, origin: Any, axes: Any
) -> dict[str, Request]:
    given = None if structure is None else footprint_of("structure", structure)
    own = given, integer("iterations", iterations, -LARGEST_ORIGIN)
    border = bool(number("border_value", border_value))
    return {"asked": request(3, None, "constant", border, origin, axes, own)}


def _neighborhood(asked: Request, rank: int) -> Neighborhood:
    count = rank if asked.axes is None else len(asked.axes)
    structure = asked.own[0] or _cross(count)
    given = replace(asked, size=None, footprint=structure)
    with renamed(footprint="structure"):
        return neighborhood(given, rank)


def _cross(count: int) -> Footprint:
    """An element and its neighbours along each axis."""
    distance = np.abs(np.indices((3,) * count) - 1).sum(0)
    return footprint_of("structure", distance <= 1)


# --- bodies ---------------------------------------------------------------------------------------

Step = Callable[[Array], Array]


def _body(steps: str) -> Callable[..., Array]:
    """The body that erodes ("e") and dilates ("d") in this order."""

    def body(x: Array, mask: Array | None, *, asked: Request) -> Array:
        check_real(x)
        hood, changing = _neighborhood(asked, x.ndim), _mask_of(mask, x.shape)
        found = x.astype(bool)
        for letter in steps:
            found = _repeated(_step(letter, hood, changing), found, asked.own[1])
        return found

    return body


def _step(letter: str, hood: Neighborhood, mask: Array | None) -> Step:
    reduction: Reduction = MIN if letter == "e" else MAX
    window = hood if letter == "e" else hood.mirrored()

    def step(x: Array) -> Array:
        y = extreme(x, window, reduction)
        return y if mask is None else jnp.where(mask, y, x)

    return step


def _repeated(step: Step, x: Array, iterations: int) -> Array:
    if iterations == 1:
        return step(x)
    if iterations > 1:
        return lax.fori_loop(0, iterations, lambda _, found: step(found), x)
    changes = lambda pair: (pair[0] != pair[1]).any()  # noqa: E731
    return lax.while_loop(changes, lambda pair: (pair[1], step(pair[1])), (x, step(x)))[1]


def _mask_of(mask: Array | None, shape: tuple[int, ...]) -> Array | None:
    if mask is None or mask.shape == shape:
        return None if mask is None else mask.astype(bool)
    raise ValueError(
        message(
            f"$mask has shape {mask.shape}.",
            f"It says of each element of the array, of shape {shape}, whether it may change.",
            "Give a mask of the shape of the array.",
        )
    )


def _op(name: str, steps: str) -> Op:
    return Op(name, _body(steps), _canonical, ("mask",))


_EROSION = _op("binary_erosion", "e")
_DILATION = _op("binary_dilation", "d")
_OPENING = _op("binary_opening", "ed")
_CLOSING = _op("binary_closing", "de")
