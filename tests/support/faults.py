"""Seeded faults, and the tests of the files that contain them; ``mutations.py`` tries them."""

from typing import NamedTuple

COUNTS = [
    "tests/numerics/test_dtypes.py",
    "tests/ops/test_golden.py",
    "tests/geometry/test_geometry.py",
]
GRADIENTS = ["tests/autodiff/test_derivatives.py"]
TESTS = {
    "_geometry/axis.py": ["tests/geometry/test_geometry.py"],
    "_geometry/resolve.py": ["tests/geometry/test_geometry.py"],
    "_numerics/indices.py": ["tests/numerics/test_indices.py", "tests/ops/test_errors.py"],
    "_lowerings/parts/phases.py": GRADIENTS,
    "_lowerings/parts/every_tap.py": ["tests/lowerings/test_every_tap.py"],
    "_lowerings/implementations/loop.py": ["tests/lowerings/test_every_tap.py"],
    "_lowerings/ranks/radix_select.py": ["tests/ops/test_ops_rank.py"],
    "_lowerings/ranks/ranks.py": ["tests/ops/test_ops_rank.py"],
    "_lowerings/parts/float_order.py": [
        "tests/ops/test_ops_rank.py",
        "tests/lowerings/test_lowerings.py",
    ],
    "_lowerings/parts/offset_slices.py": GRADIENTS,
    "_lowerings/parts/offset_levels.py": GRADIENTS,
    "_lowerings/implementations/axis_by_axis.py": GRADIENTS,
    "_lowerings/implementations/tiled.py": GRADIENTS,
    "_lowerings/implementations/padded_slices.py": [
        *GRADIENTS,
        "tests/lowerings/test_lowerings.py",
    ],
    "_lowerings/parts/window_counts.py": COUNTS,
    "_xla/variadic_reduce.py": ["tests/lowerings/test_lowerings.py"],
    "_lowerings/parts/axis_slicing.py": ["tests/lowerings/test_lowerings.py"],
    "_lowerings/parts/argreduce.py": [
        "tests/numerics/test_indices.py",
        "tests/lowerings/test_lowerings.py",
        "tests/ops/test_ops_adaptive.py",
    ],
    "_autodiff/flat_index.py": ["tests/ops/test_ops_unpool.py"],
    "_geometry/ragged.py": ["tests/ops/test_ops_adaptive.py"],
    "_lowerings/ragged/ragged.py": ["tests/ops/test_ops_adaptive.py"],
    "_lowerings/ragged/ragged_offsets.py": ["tests/ops/test_ops_adaptive.py"],
    "_lowerings/ragged/ragged_gather.py": ["tests/ops/test_ops_adaptive.py"],
    "_numerics/window_terms.py": ["tests/ops/test_ops_smooth.py"],
    "_numerics/covariances.py": ["tests/ops/test_ops_statistics.py"],
    "_numerics/moments.py": ["tests/ops/test_ops_statistics.py"],
    "_numerics/weighted_windows.py": ["tests/ops/test_ops_blur.py"],
    "_numerics/divisors.py": COUNTS,
}
"""Where the faults of a file should be found, the fastest first."""


class Fault(NamedTuple):
    """The replacement of the first occurrence of ``old`` in a file by ``new``."""

    file: str
    old: str
    new: str


FAULTS = [
    Fault("_geometry/axis.py", "return -((-a) // b)", "return a // b"),
    Fault(
        "_geometry/axis.py",
        "(self.kernel - 1) * self.dilation + 1",
        "self.kernel * self.dilation",
    ),
    Fault("_geometry/resolve.py", "window.dilations[index] + 1", "window.dilations[index]"),
    Fault("_geometry/axis.py", "window * self.stride - self.pad_low", "window * self.stride"),
    Fault("_geometry/axis.py", "self.start(self.out - 1)", "self.start(self.out)"),
    Fault("_geometry/axis.py", "cdiv(-start, self.dilation)", "-start // self.dilation"),
    Fault(
        "_geometry/axis.py",
        "cdiv(self.size - start, self.dilation), low",
        "self.size - start, low",
    ),
    Fault("_geometry/axis.py", "end = self.size + self.pad_high", "end = self.size"),
    Fault("_geometry/axis.py", "[(full, self.kernel)]", "[(full, self.kernel - 1)]"),
    Fault("_geometry/axis.py", "cdiv(end - self.start(o), self.dilation)", "end - self.start(o)"),
    Fault("_geometry/axis.py", "high - low) for first", "high - low + 1) for first"),
    Fault("_geometry/resolve.py", "size % stride or stride", "size % stride"),
    Fault("_geometry/resolve.py", 'if word == "SAME_UPPER" else', 'if word == "SAME_LOWER" else'),
    Fault("_geometry/resolve.py", "slack // stride + 1", "slack // stride"),
    Fault("_geometry/resolve.py", 'rounding == "ceil" or', 'rounding == "floor" or'),
    Fault("_geometry/resolve.py", "steps * stride < start_limit", "steps * stride <= start_limit"),
    Fault("_geometry/resolve.py", "window.rounding, size + low", "window.rounding, size"),
    Fault(
        "_geometry/resolve.py",
        "(out - 1) * stride + span - padded",
        "(out - 1) * stride + span - size",
    ),
    Fault("_geometry/resolve.py", "self.positions, self.out_shape", "self.positions, self.kernel"),
    Fault("_numerics/indices.py", "axis.stride - axis.pad_low", "axis.stride"),
    Fault("_numerics/indices.py", "digit * axis.dilation", "digit"),
    Fault("_lowerings/parts/argreduce.py", "offsets = offsets // count", "offsets = offsets"),
    Fault("_numerics/indices.py", "shape[axis] + coordinate", "shape[axis] - coordinate"),
    Fault("_numerics/indices.py", "jnp.where(has_element, index", "jnp.where(True, index"),
    Fault("_numerics/indices.py", "space % rank - rank, 0", "space % rank - rank + 1, 0"),
    Fault("_numerics/indices.py", "fits = last + (limits.min == 0)", "fits = last"),
    Fault("_numerics/indices.py", "is_empty = offsets == ", "is_empty = offsets != "),
    Fault("_lowerings/parts/phases.py", "first - s, last - s", "first - s - 1, last - s - 1"),
    Fault(
        "_lowerings/parts/phases.py",
        "-start, stop - count, identity)",
        "-start - 1, stop - count + 1, identity)",
    ),
    Fault("_lowerings/parts/phases.py", "axis.span - 1 - axis.pad_low", "axis.span - axis.pad_low"),
    Fault(
        "_lowerings/parts/phases.py",
        "size = (axis.out - 1) * axis.stride + 1",
        "size = axis.out * axis.stride",
    ),
    Fault("_lowerings/parts/phases.py", "axis.pad_low + low * axis.stride", "axis.pad_low + low"),
    Fault(
        "_lowerings/parts/offset_slices.py",
        "dimension, first - shift, last",
        "dimension, first, last",
    ),
    Fault("_lowerings/parts/offset_levels.py", "low * unit, high and", "low * unit, inner and"),
    Fault(
        "_lowerings/parts/offset_levels.py", "high = axis.pad_low + axis.size", "high = axis.size"
    ),
    Fault(
        "_lowerings/implementations/tiled.py",
        "offsets_int32 // axis.kernel",
        "offsets_int32 // axis.stride",
    ),
    Fault(
        "_lowerings/implementations/tiled.py",
        "axis.kernel) * axis.dilation == column",
        "axis.kernel) == column",
    ),
    Fault(
        "_lowerings/implementations/padded_slices.py",
        "tuple(map(transposed_axis, geometry.axes))",
        "geometry.axes",
    ),
    Fault(
        "_lowerings/implementations/padded_slices.py",
        "number * unit, may_be_empty",
        "number, may_be_empty",
    ),
    Fault(
        "_lowerings/parts/float_order.py",
        "identity + step, identity.dtype",
        "identity, identity.dtype",
    ),
    Fault(
        "_lowerings/implementations/axis_by_axis.py",
        "dilate_windows(g, axis, position), geo",
        "g, geo",
    ),
    Fault(
        "_lowerings/implementations/axis_by_axis.py",
        "axis.stride == axis.span == axis.kernel",
        "axis.stride == axis.span",
    ),
    Fault(
        "_lowerings/parts/window_counts.py",
        "product = product * runs[0][1]",
        "product = runs[0][1]",
    ),
    Fault(
        "_lowerings/parts/window_counts.py",
        "np.array(each, np.int32)",
        "np.array(each[::-1], np.int32)",
    ),
    Fault(
        "_lowerings/parts/window_counts.py",
        "jnp.full(shape, run[1],",
        "jnp.full(shape, run[1] + 1,",
    ),
    Fault("_xla/variadic_reduce.py", "unordered or combine", "lambda a, b: b"),
    Fault("_lowerings/parts/axis_slicing.py", "parts[half:])", "parts[: half + 1])"),
    Fault("_lowerings/parts/argreduce.py", "lax.lt(first, second)", "lax.gt(first, second)"),
    Fault(
        "_lowerings/parts/argreduce.py",
        "lax.bitwise_not(comparator(a[0], b[0]))",
        "is_preferred",
    ),
    Fault("_lowerings/parts/argreduce.py", 'f"uint{8', 'f"int{8'),
    Fault("_lowerings/parts/argreduce.py", "moved = offsets + ", "moved = offsets * "),
    Fault("_geometry/ragged.py", "bisect_right(ends, i)", "bisect_right(ends, i - 1)"),
    Fault("_geometry/ragged.py", "or len(steps) > 1", ""),
    Fault("_lowerings/ragged/ragged.py", "start, start + length", "start, start + axis.longest"),
    Fault(
        "_lowerings/ragged/ragged_offsets.py", "last_offset(axes) < 255", "last_offset(axes) <= 255"
    ),
    Fault("_lowerings/ragged/ragged.py", "jnp.where(valid, offsets, sentinel(offsets))", "offsets"),
    Fault(
        "_lowerings/ragged/ragged.py",
        "np.minimum(offset, np.array(axis.lengths) - 1) << shift",
        "offset << shift",
    ),
    Fault(
        "_lowerings/ragged/ragged_gather.py",
        "jnp.where(offsets == sentinel(offsets), -1, coordinate",
        "jnp.add(0, coordinate",
    ),
    Fault(
        "_lowerings/ragged/ragged_gather.py",
        "np.where(nth < counts, own_offset, sentinel(offsets))",
        "own_offset",
    ),
    Fault("_lowerings/ragged/ragged_gather.py", "(offset != sentinel(offset)) & ", ""),
    Fault("_numerics/window_terms.py", "ratio(levels, -terms[0])", "ratio(levels, terms[0])"),
    Fault("_numerics/covariances.py", "g * (base - last)", "g * (last - base)"),
    Fault("_numerics/covariances.py", "g * (x - base - delta)", "g * (x - base)"),
    Fault("_numerics/covariances.py", "products - delta * tree", "products + delta * tree"),
    Fault("_numerics/moments.py", "2 * bilinear_map", "bilinear_map"),
    Fault("_numerics/weighted_windows.py", "row[place] += ", "row[place] = "),
    Fault("_numerics/weighted_windows.py", "window + shift: weight", "window - shift: weight"),
    Fault(
        "_numerics/window_terms.py",
        "dilate_windows(parts, axis, position, identities)",
        "dilate_windows(parts, axis, position)",
    ),
    Fault("_numerics/divisors.py", "empty = divisor == 0", "empty = divisor == 1"),
    Fault("_numerics/divisors.py", "x.astype(accumulator(x.dtype))", "x"),
    Fault("_autodiff/flat_index.py", "start + k < axis.size", "start + k <= axis.size"),
    Fault("_autodiff/flat_index.py", "np.asarray(_OUTSIDE_BLOCK, dtype)", "empty(dtype)"),
    Fault("_lowerings/ranks/radix_select.py", "<= places", "< places"),
    Fault("_lowerings/ranks/radix_select.py", "reads.taps - 1, dtype", "0, dtype"),
    Fault(
        "_lowerings/ranks/ranks.py",
        "Fold(offset_if_equal, last, lax.min)",
        "Fold(offset_if_equal, last, lax.max)",
    ),
    Fault("_lowerings/parts/every_tap.py", "flat * np.int32(x.shape[axis])", "flat * np.int32(2)"),
    Fault("_lowerings/implementations/loop.py", "axis.span - 1 for", "axis.span for"),
    Fault(
        "_lowerings/parts/float_order.py",
        "_with_one_zero(_float_keys(x, MAX))",
        "_float_keys(x, MAX)",
    ),
]
