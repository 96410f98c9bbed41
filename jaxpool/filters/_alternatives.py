"""Alternatives for the names of ``scipy.ndimage`` and ``scipy.signal`` that this package lacks."""

import re

_WEIGHTS = (
    "weighted sums are convolutions: jax.scipy.signal.convolve, or jax.lax.conv_general_dilated of "
    "a batch; jaxpool.blur_pool has binomial weights"
)
_COORDINATES = "jax.scipy.ndimage.map_coordinates reads an array at any coordinates"
_LABELS = "jax.ops.segment_sum, segment_max and segment_min reduce the elements of each label"
_SHAPES = (
    "it depends on regions or distances of any size; jax.pure_callback can call the function "
    "of scipy from JAX"
)
_STRUCTURES = "use the function of scipy.ndimage: the filters accept its result"

ALTERNATIVES: dict[str, str] = {
    r"(convolve|correlate|gaussian_filter)(1d)?": _WEIGHTS,
    r"(generic_|gaussian_)?(laplace|gradient_magnitude)|prewitt|sobel": _WEIGHTS,
    r"zoom": "jax.image.resize resizes arrays",
    r"shift|rotate|(affine|geometric)_transform|map_coordinates|spline_filter(1d)?": _COORDINATES,
    r"fourier_\w+": "multiply the result of jax.numpy.fft.fftn",
    r"sum|mean|median|variance|standard_deviation|center_of_mass|sum_labels|histogram": _LABELS,
    r"extrema|(minimum|maximum)(_position)?|labeled_comprehension|value_indices": _LABELS,
    r"label|find_objects|watershed_ift|distance_transform_\w+": _SHAPES,
    r"binary_propagation": "write binary_dilation(x, iterations=-1, mask=mask)",
    r"binary_fill_holes": "write ~binary_dilation(jnp.zeros_like(x), iterations=-1, mask=x == 0, "
    "border_value=1)",
    r"binary_hit_or_miss": "write binary_erosion(x, hit) & "
    "binary_erosion(x == 0, miss, border_value=1)",
    r"generate_binary_structure|iterate_structure": _STRUCTURES,
    r"generic_filter1d": "generic_filter accepts a function of one window; jax.vmap applies a "
    "function to each line",
    r"vectorized_filter": "generic_filter accepts a function of one window and vectorises it",
    r"medfilt(2d)?": 'write median_filter(x, size, mode="constant")',
    r"order_filter": 'write rank_filter(x, rank, footprint=domain, mode="constant")',
    r"\w+_pool\w*": "pools are in jaxpool itself, such as jaxpool.max_pool",
}
"""The alternative for each regular expression of names."""


def hint(name: str) -> str:
    """Return the end of the error message for an unknown name: an alternative, or ""."""
    return next(
        (f": {text}" for pattern, text in ALTERNATIVES.items() if re.fullmatch(pattern, name)), ""
    )
