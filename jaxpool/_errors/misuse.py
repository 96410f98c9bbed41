"""Advice for a failed call: argument names of other libraries, missing arguments, traced settings.

This code runs only after a call has failed. :func:`signature_mismatch` returns the three lines of a
message, with ``$name`` for an argument, and :func:`advice_on_traced_settings` the last of them.
Both return None if the failure has another cause.
"""

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Lines = tuple[str, str, str]

SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("window_shape", "kernel", "kernel_size", "pool_size", "ksize", "kernel_shape")
    + ("window", "window_dimensions", "size", "footprint", "filter_shape")
    + ("kernel_width", "filter_width"),
    ("strides", "stride", "window_strides", "subsample", "stride_width", "stride_w"),
    ("padding", "pads", "pad", "pads_begin", "auto_pad", "border_mode")
    + ("padding_l", "padding_left"),
    ("dilations", "dilation", "window_dilation", "dilation_rate", "rates"),
    ("rounding", "ceil_mode", "use_ceil", "rounding_type", "ceil"),
    ("data_format", "channel_axis", "layout", "axes"),
    ("data_format", "channel_axis", "axes", "axis", "dim"),
    ("where", "mask", "skipna"),
    ("fill", "padding_value", "pad_value", "fill_value", "constant_values"),
    ("boxes", "rois", "bboxes"),
    ("spatial_scale", "scale"),
    ("count_include_pad", "include_pad", "exclude_pad", "count_padding"),
    ("x", "y", "x_or_shape", "inputs", "input", "value", "data", "src", "operand", "tensor")
    + ("image", "images", "a", "array"),
    ("output_size", "output_shape", "target_shape", "out_shape", "output_dims"),
    ("input_shape", "spatial_shape", "shape"),
    ("p", "norm_type", "ord"),
    ("keepdims", "keepdim", "keep_dims"),
    ("correction", "ddof", "unbiased"),
    ("q", "quantile", "percentile"),
    ("method", "interpolation"),
    ("rank", "k"),
    ("key", "rng", "rngs", "seed"),
    ("reduction", "reduce_fn", "computation"),
    ("identity", "init", "init_value", "init_values", "initial"),
    ("temperature", "beta", "tau"),
)
"""Groups of names for the same argument; the first is jaxpool's, the others may be advised too.

``axis`` stands in a group of its own, because OpenVINO's ``axis`` is not a layout.
"""

REMARKS: dict[tuple[str, str], str] = {
    ("ceil_mode", "rounding"): 'ceil_mode=True is rounding="ceil_torch"',
    ("use_ceil", "rounding"): 'use_ceil=True is rounding="ceil_torch"',
    ("rounding_type", "rounding"): "the values are floor, ceil and ceil_torch",
    ("exclude_pad", "count_include_pad"): "exclude_pad=True is count_include_pad=False",
    ("unbiased", "correction"): "unbiased=True is correction=1",
    ("percentile", "q"): "q is a fraction, from 0 to 1",
    ("seed", "key"): "make a key with jax.random.key(seed)",
    ("beta", "temperature"): "the temperature is 1 / beta",
    ("skipna", "where"): "skipna=True is where=~jnp.isnan(x)",
    ("footprint", "window_shape"): "only jaxpool.filters accepts footprints",
    ("size", "window_shape"): "jaxpool.filters has the arguments of scipy.ndimage",
    ("window_shape", "kernel_width"): "kernel_height is that of the other axis",
    ("window_shape", "filter_width"): "filter_height is that of the other axis",
    ("strides", "stride_width"): "stride_height is that of the other axis",
    ("strides", "stride_w"): "stride_h is that of the other axis",
    ("padding", "padding_l"): "padding_r pads the high ends",
    ("padding", "pads_begin"): "pads_end pads the high ends, and auto_pad is a name",
    ("padding", "padding_left"): "padding_right, padding_top and padding_bottom pad the other ends",
    **{
        (word, "data_format"): (
            'channels are last by default; otherwise "channels_first" or letters such as "NCHW"'
        )
        for word in ("channel_axis", "axis", "axes", "dim")
    },
}
"""Remarks for the advice to replace a word with an argument.

The keys are (word, argument), or (first word of its group, argument).
"""

_SLIDING = "sliding pools of jaxpool itself, such as jaxpool.max_pool, accept"

ELSEWHERE: dict[str, str] = {
    "return_indices": "jaxpool.max_pool_with_argmax returns indices",
    "include_batch_in_index": "index_space=0 counts the batch, index_space=1 counts all other axes",
    "keepdims": "only global pools can remove the pooled axes",
    "output": "the result is returned; convert it with astype",
    "output_ratio": "output_size is a number of windows for each axis",
    "center": 'padding="SAME" centres the windows',
    "min_periods": "sum_pool of a mask counts the values of each window",
    "closed": "padding decides which elements belong to the first and the last window",
    "win_type": "jaxpool.windows returns the elements of each window, to be weighted",
    "count_include_pad": "only jaxpool.avg_pool can count padding",
    "exclude_pad": "only jaxpool.avg_pool can count padding",
    "divisor_override": "only jaxpool.avg_pool accepts another divisor",
    "footprint": "only jaxpool.filters accepts footprints",
    "mode": "jaxpool.filters has the arguments of scipy.ndimage",
    "origin": "jaxpool.filters has the arguments of scipy.ndimage",
    "cval": "jaxpool.filters has the arguments of scipy.ndimage",
    "weights": "only jaxpool.avg_pool accepts weights",
    "lengths": "where=jnp.arange(n)[:, None] < lengths[:, None, None] leaves out the padding of "
    "sequences of n steps",
    "where": "jaxpool.max_pool and similar pools accept where; in pools of regions, image index -1 "
    "pads an array of boxes",
    "temperature": "only jaxpool.logsumexp_pool and its global form accept a temperature T; "
    "soft_pool(x / T, ...) * T has weights exp(x / T)",
    "beta": "soft_pool(beta * x, ...) / beta has weights exp(beta * x)",
    "sigma": "windows of jaxpool.blur_pool are binomial; n taps have a standard deviation of "
    "sqrt(n - 1) / 2",
    "name": "jax.named_scope names a part of a program",
    "dtype": "the dtype is that of the array: convert the array first",
    "base_dilation": "arrays are not dilated, only windows",
    "window_shape": "its windows are entire axes, or follow from the size of the result",
    "strides": "it has no strides",
    "padding": f"{_SLIDING} padding",
    "dilations": f"{_SLIDING} dilations",
    "rounding": f'{_SLIDING} rounding; ceil_mode=True is rounding="ceil_torch"',
    "data_format": "the layout is fixed; pools of jaxpool itself, such as jaxpool.max_pool, "
    "accept data_format",
}
"""Where to find a feature that a function lacks, by its word or by the first word of its group."""

EXAMPLES: dict[str, str] = {
    "window_shape": "(2, 2), one entry per pooled axis",
    "strides": "2, or one per pooled axis; libraries disagree on a default, so there is none",
    "output_size": "(7, 7), one entry per pooled axis",
    "output_shape": "(8, 8), the lengths of the pooled axes before the pooling",
    "key": "jax.random.key(0)",
    "q": "0.5",
    "rank": "0",
    "reduction": "jaxpool.reductions.MAX",
    "indices": "jaxpool.max_pool_with_argmax(...)[1]",
    "identity": "0 for a sum, -jnp.inf for a maximum",
    "padding": '"VALID" or "SAME"',
    "axis_names": '("rows", None), a mesh axis or None per pooled axis',
}

ADVICE = (
    "Settings are static: give Python numbers, close over them, as in jax.jit(lambda x: f(x, 2)), "
    "or name {} in the static_argnames or static_argnums of jax.jit."
)


def signature_mismatch(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Lines | None:
    """Return why the arguments do not fit the signature of ``function``, or None if they fit."""
    parameters = _parameters(function)
    if parameters and parameters[0].name == "self":
        parameters, args = parameters[1:], args[1:]
    takes_any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    parameters = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    by_position = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    names = [p.name for p in parameters]
    passed = {*by_position[: len(args)], *kwargs}
    unknown = [name for name in kwargs if name not in names]
    if unknown and not takes_any_name:
        return _unknown(unknown, names, passed)
    if len(args) > len(by_position):
        return _too_many(len(args), by_position, names)
    twice = [name for name in by_position[: len(args)] if name in kwargs]
    if twice:
        facts = f"The positional arguments are {', '.join(by_position)}."
        return f"${twice[0]} is given twice, by position and by name.", facts, "Give it once."
    missing = [p.name for p in parameters if p.default is p.empty and p.name not in passed]
    return _missing(missing, names) if missing else None


def advice_on_traced_settings(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: Iterable[str],
) -> str | None:
    """Return advice about the traced settings among ``names``, or None if no setting is traced."""
    parameters = _parameters(function)
    passed = {**dict(zip((p.name for p in parameters), args, strict=False)), **kwargs}
    arrays = {p.name for p in parameters if "Array" in str(p.annotation)}
    traced = [n for n in names if n not in arrays and is_traced(passed.get(n))]
    return ADVICE.format(", ".join(f"${name}" for name in traced)) if traced else None


def is_traced(value: Any, depth: int = 2) -> bool:
    """Return whether ``value`` is a tracer, or a tuple or list (of pairs) that contains one."""
    if type(value) in (tuple, list):
        return depth > 0 and any(is_traced(entry, depth - 1) for entry in value)
    return any(base.__name__ == "Tracer" for base in type(value).__mro__)


def matching_name(word: str, names: Sequence[str]) -> str | None:
    """Return the entry of ``names`` for ``word``, a synonym or a misspelling, or None."""
    group = next((group for group in SYNONYMS if word in group), ())
    close = difflib.get_close_matches(word, names, 1, 0.8)
    return next((name for name in group if name in names), close[0] if close else None)


def _first_synonym(word: str) -> str:
    return next((group[0] for group in SYNONYMS if word in group), word)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _unknown(unknown: Sequence[str], names: Sequence[str], passed: set[str]) -> Lines:
    quoted = joined([f"`{word}`" for word in unknown])
    what = f"{quoted} is not an argument." if len(unknown) == 1 else f"{quoted} are not arguments."
    advice = "; ".join(_replacement(word, names, passed) for word in unknown)
    return what, f"The arguments are {', '.join(names)}.", f"{advice[0].upper()}{advice[1:]}."


def _replacement(word: str, names: Sequence[str], passed: set[str]) -> str:
    match = matching_name(word, names)
    if match is None or match in passed:
        remark = "" if match else ELSEWHERE.get(word, ELSEWHERE.get(_first_synonym(word), ""))
        return f"leave out `{word}`" + (f": {remark}" if remark else "")
    remark = REMARKS.get((word, match), REMARKS.get((_first_synonym(word), match), ""))
    return f"write ${match} for `{word}`" + (f": {remark}" if remark else "")


def _too_many(count: int, by_position: Sequence[str], names: Sequence[str]) -> Lines:
    others = [name for name in names if name not in by_position]
    which = "the others" if by_position else "them"
    advice = f"Give {which} by name: {', '.join(others)}." if others else f"Leave {which} out."
    noun = "argument" if len(by_position) == 1 else "arguments"
    facts = f"It accepts {len(by_position)} positional {noun}: {', '.join(by_position)}."
    subject = "1 argument is" if count == 1 else f"{count} arguments are"
    facts = facts if by_position else "It accepts no positional arguments."
    return f"{subject} given by position.", facts, advice


def _missing(missing: Sequence[str], names: Sequence[str]) -> Lines:
    first = missing[0]
    example = EXAMPLES.get(first, EXAMPLES.get(_first_synonym(first)))
    verb = "is" if len(missing) == 1 else "are"
    return (
        f"{joined([f'${name}' for name in missing])} {verb} missing.",
        f"The arguments are {', '.join(names)}.",
        f"Give for example {first}={example}." if example else f"Give ${first}.",
    )


def joined(words: Sequence[str]) -> str:
    """Return words as an enumeration: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def placeholders(line: str) -> list[str]:
    """Return the names of the arguments that a line of a template mentions."""
    return re.findall(r"(?<!\$)\$(\w+)", line)
