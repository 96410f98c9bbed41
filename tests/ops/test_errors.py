"""Bad input: every op raises an error of three lines in the caller's terms, eager and traced.

The first line begins with the name of the function and says what is wrong, the second states the
facts, the third says what to do. A case has a call, the type of its error, and a pattern for each
line.
"""

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same, error_lines

import jaxpool
from jaxpool import compat, filters
from jaxpool._lowerings import IMPLEMENTATIONS
from jaxpool._lowerings.request import Request

SHAPE = (2, 6, 7, 3)
X = np.arange(2 * 6 * 7 * 3, dtype=np.float32).reshape(SHAPE)

OPS: dict[str, Callable[..., Any]] = {
    "max_pool": jaxpool.max_pool,
    "min_pool": jaxpool.min_pool,
    "max_pool_with_argmax": jaxpool.max_pool_with_argmax,
    "avg_pool": jaxpool.avg_pool,
    "sum_pool": jaxpool.sum_pool,
}
over_ops = pytest.mark.parametrize("op", OPS)


def _further_ops() -> dict[str, Callable[..., Any]]:
    """Return the remaining public ops with these arguments, and ``pool`` with a reduction."""
    arguments = ["x", "window_shape", "strides", "padding"]
    found: dict[str, Callable[..., Any]] = {}
    for name in jaxpool.__all__:
        function = getattr(jaxpool, name)
        if inspect.isfunction(function) and name not in OPS:
            if list(inspect.signature(function).parameters)[:4] == arguments:
                found[name] = function
    largest = functools.partial(jaxpool.pool, reduction=jaxpool.reductions.MAX)
    return {**found, "pool": lambda x, window, strides, **words: largest(
        x, window_shape=window, strides=strides, **words)}  # fmt: skip


FURTHER_OPS = _further_ops()


def pool(op: str, *, x: Any = X, window_shape: Any = (3, 2), strides: Any = (1, 2), **words: Any):
    """Call an op with valid settings, except for the overrides."""
    return (OPS | FURTHER_OPS)[op](x, window_shape, strides, **words)


class Case(NamedTuple):
    """Invalid settings, the type of the error, and a pattern for each of its lines."""

    settings: dict[str, Any]
    error: type[Exception]
    what: str
    facts: str
    advice: str


class OddName:
    """An object whose representation has a line break, like that of an array of several axes."""

    def __repr__(self) -> str:
        return "odd\nname"


def check(op: str, call: Callable[[], Any], case: Case, times: int = 2) -> None:
    """Fail unless ``call`` raises the error of ``case`` in the name of ``op``, each time."""
    what, facts, advice = error_lines(op, case.error, call, times)
    assert re.search(case.what, what), what
    assert re.search(case.facts, facts), facts
    assert re.search(case.advice, advice), advice


# --- settings that every function of this library has ---------------------------------------------


def shown_as(value: Any, shown: str | None = None) -> str:
    """Return the pattern of ``value`` in a message, or of its part ``shown``."""
    return "odd.name" if isinstance(value, OddName) else re.escape(shown or repr(value))


def not_an_integer(
    name: str,
    value: Any,
    shown: str | None = None,
    kind: str | None = None,
    advice: str = "Give a Python or NumPy integer, not a bool, float, tracer or symbolic value",
) -> Case:
    """Return the case of a ``value`` of the setting ``name`` with an entry that is no integer."""
    return Case(
        {name: value},
        TypeError,
        f"`{name}` contains {shown_as(value, shown)}, which is not an integer",
        f"type is {kind or type(value).__name__};",
        advice,
    )


def too_small(name: str, value: Any, held: int, least: int) -> Case:
    """Return the case of a ``value`` of the setting ``name`` with a number below ``least``."""
    advice = "Give a larger integer" if least else "Crop the array instead of padding by less"
    return Case(
        {name: value}, ValueError, f"`{name}` contains {held}\\.", f"at least {least}\\.", advice
    )


def wrong_length(name: str, value: Any, entries: str) -> Case:
    """Return the case of a ``value`` of the setting ``name`` without an entry per pooled axis."""
    return Case(
        {name: value},
        ValueError,
        f"`{name}` = .* has {entries}\\.",
        "The window slides along 2 axes",
        "Give one integer for all of them, or one entry for each",
    )


def does_not_fit(
    axis: int, kernel: int, dilation: int, span: int, padded: str, **words: Any
) -> Case:
    """Return the case of a window that is longer than its padded axis."""
    size, low, high = map(int, re.findall(r"\d+", padded))
    return Case(
        words,
        ValueError,
        f"`window_shape` = {kernel} does not fit pooled axis {axis}\\.",
        f"spans {span} elements at dilation {dilation}, but the axis has "
        f"{re.escape(padded)} = {size + low + high}\\.",
        f"smaller window or dilation, or padding of at least {span - size} in total",
    )


def unknown_padding(
    word: Any, advice: str = "an integer, one integer per axis, or \\(low, high\\) pairs"
) -> Case:
    return Case(
        {"padding": word},
        ValueError,
        f"`padding` = {re.escape(repr(word))} is not a padding",
        "VALID, SAME, SAME_UPPER, SAME_LOWER, in upper or lower case",
        advice,
    )


def unknown_rounding(word: Any, shown: str | None = None) -> Case:
    return Case(
        {"rounding": word},
        ValueError,
        f"`rounding` = {shown_as(word, shown)} is not a rounding",
        "floor, ceil, ceil_torch",
        '"ceil_torch" for the ceil_mode of PyTorch and ONNX, "ceil" for OpenVINO',
    )


def unknown_layout(word: Any, shown: str | None = None) -> Case:
    return Case(
        {"data_format": word},
        ValueError,
        f"`data_format` = {shown_as(word, shown)} is not a layout",
        "channels_last, channels_first, or letters, each at most once: N for the batch, C for "
        "channels, and at least one of D, H, W for pooled axes",
        '"NHWC", "NCHW", "NCDHW", "HWC" or "channels_first"',
    )


BORDER = 'For a border, extend the array by jnp.pad first, then pool with "VALID"'

# Named after the fault. They apply to geometry() as well, which knows only the pooled axes.
WINDOW_CASES: dict[str, Case] = {
    "stride 0": too_small("strides", 0, 0, 1),
    "stride 0 on one axis": too_small("strides", (1, 0), 0, 1),
    "negative stride": too_small("strides", -1, -1, 1),
    "negative stride on one axis": too_small("strides", [2, -3], -3, 1),
    "dilation 0": too_small("dilations", 0, 0, 1),
    "dilation 0 on one axis": too_small("dilations", (0, 1), 0, 1),
    "negative dilation": too_small("dilations", -2, -2, 1),
    "kernel 0": too_small("window_shape", (0, 2), 0, 1),
    "negative kernel": too_small("window_shape", (2, -2), -2, 1),
    "negative padding": too_small("padding", -1, -1, 0),
    "negative padding on one axis": too_small("padding", (0, -1), -1, 0),
    "negative low padding": too_small("padding", ((1, 1), (-1, 1)), -1, 0),
    "negative high padding": too_small("padding", ((1, -2), (1, 1)), -2, 0),
    "kernel too long": does_not_fit(1, 8, 1, 8, "7 + padding (0, 0)", window_shape=(3, 8)),
    "kernel too long, ceil": does_not_fit(
        0, 7, 1, 7, "6 + padding (0, 0)", window_shape=(7, 2), rounding="ceil"
    ),
    "kernel too long, ceil_torch": does_not_fit(
        0, 7, 1, 7, "6 + padding (0, 0)", window_shape=(7, 2), strides=2, rounding="ceil_torch"
    ),
    "kernel too long for its padding": does_not_fit(
        0, 10, 1, 10, "6 + padding (1, 2)", window_shape=(10, 2), padding=((1, 2), (0, 0))
    ),
    "dilated kernel too long": does_not_fit(
        0, 3, 3, 7, "6 + padding (0, 0)", window_shape=(3, 2), dilations=(3, 1)
    ),
    "dilated kernel too long for its padding": does_not_fit(
        1, 2, 9, 10, "7 + padding (0, 2)", window_shape=(3, 2), dilations=(1, 9),
        padding=((0, 0), (0, 2)),
    ),  # fmt: skip
    "too few strides": wrong_length("strides", (2,), "1 entry"),
    "too many strides": wrong_length("strides", (2, 2, 2), "3 entries"),
    "no strides": wrong_length("strides", (), "0 entries"),
    "too few dilations": wrong_length("dilations", [1], "1 entry"),
    "too many dilations": wrong_length("dilations", [1, 1, 1], "3 entries"),
    "too few paddings": wrong_length("padding", (1,), "1 entry"),
    "too many paddings": wrong_length("padding", (1, 1, 1), "3 entries"),
    "too many pairs": wrong_length("padding", ((1, 1), (1, 1), (1, 1)), "3 entries"),
    "a long range as strides": wrong_length("strides", range(10**9), "1000000000 entries"),
    "too many strides in an array": wrong_length("strides", np.ones((3, 3), int), "3 entries"),
    "padding of one end": Case(
        {"padding": ((1,), (1,))},
        ValueError,
        r"`padding` contains the entry \(1,\)",
        "two ends, low and high; the entry has 1 number",
        r"an integer for both ends, or a pair \(low, high\)",
    ),
    "padding of three ends": Case(
        {"padding": ((0, 1), (1, 1, 1))},
        ValueError,
        r"`padding` contains the entry \(1, 1, 1\)",
        "two ends, low and high; the entry has 3 number",
        r"an integer for both ends, or a pair \(low, high\)",
    ),
    "padding in an array of too many axes": not_an_integer(
        "padding", np.ones((2, 2, 2), int), "array([1, 1])", "ndarray"
    ),
    "no window": Case(
        {"window_shape": (), "strides": ()},
        ValueError,
        "`window_shape` has 0 entries",
        "one per pooled axis, and 1 to 32 axes can be pooled",
        r"for example \(2, 2\)",
    ),
    "a long range as window": Case(
        {"window_shape": range(10**9)},
        ValueError,
        "`window_shape` has 1000000000 entries",
        "one per pooled axis, and 1 to 32 axes can be pooled",
        r"for example \(2, 2\)",
    ),
    "unknown padding": unknown_padding("HALF"),
    "padding of SciPy's convolutions": unknown_padding(
        "FULL", "Give the span of a window minus 1"
    ),
    "padding of causal convolutions": unknown_padding(
        "causal", r"Give \(low, high\) pairs: low is the span of a window minus 1, high is 0"
    ),
    "padding of Flax's convolutions": unknown_padding("CIRCULAR", BORDER),
    "padding of PyTorch's convolutions": unknown_padding("replicate", BORDER),
    "pads of ONNX": Case(
        {"padding": (1, 0, 1, 2)},
        ValueError,
        r"`padding` = \(1, 0, 1, 2\) has 4 entries",
        "The window slides along 2 axes, each with a low and a high end",
        r"Give \(low, high\) pairs; pads in ONNX's order are \(\(1, 1\), \(0, 2\)\)",
    ),
    "padding of four axes": Case(
        {"padding": (0, 1, 2, 0)},
        ValueError,
        r"`padding` = \(0, 1, 2, 0\) has 4 entries",
        "The window slides along 2 axes",
        r"If some are for batch and channels, leave them out: \(1, 2\)",
    ),
    "padding of ONNX": unknown_padding("NOTSET"),
    "padding word with a blank": unknown_padding("VALID "),
    "empty padding word": unknown_padding(""),
    "a padding word for each axis": not_an_integer("padding", ("SAME", "VALID"), "'SAME'", "str"),
    "unknown rounding": unknown_rounding("up"),
    "rounding in capitals": unknown_rounding("CEIL"),
    "no rounding": unknown_rounding(None),
    "True as rounding": unknown_rounding(True),
    "a list as rounding": unknown_rounding(["floor"]),
    "an array as rounding": unknown_rounding(np.array([1, 2])),
    "an object as rounding": unknown_rounding(OddName()),
    "True as stride": not_an_integer("strides", True),
    "True among strides": not_an_integer("strides", (1, True), "True", "bool"),
    "NumPy's True as stride": not_an_integer("strides", np.True_),
    "an array of True as stride": not_an_integer("strides", np.array(True)),
    "an array of booleans as strides": not_an_integer(
        "strides", np.array([True, True]), "np.True_", "bool"
    ),
    "a float as stride": not_an_integer("strides", 2.0),
    "a float among strides": not_an_integer("strides", (1, 2.0), "2.0", "float"),
    "a NumPy float as stride": not_an_integer("strides", np.float32(2)),
    "a text as strides": not_an_integer("strides", "22"),
    "bytes as strides": not_an_integer("strides", b"22"),
    "nested strides": not_an_integer("strides", ((1, 2), 2), "(1, 2)", "tuple"),
    "an array of two axes as strides": not_an_integer(
        "strides", np.array([[1, 2], [1, 2]]), "array([1, 2])", "ndarray"
    ),
    "no strides at all": not_an_integer(
        "strides", None, advice="Give for example 2; None is not replaced by a default"
    ),
    "padding in place of strides": not_an_integer(
        "strides", "SAME_LOWER", advice="Give the strides before `padding`, or `padding` by name"
    ),
    "an array of floats in place of strides": not_an_integer(
        "strides", np.ones((2, 1)), "array([1.])", "ndarray",
        "Give integers; the array itself comes before `strides`",
    ),
    "a set as strides": not_an_integer("strides", {2}),
    "a dict as strides": not_an_integer("strides", {0: 1, 1: 2}),
    "a slice as strides": not_an_integer("strides", slice(2)),
    "an object as strides": not_an_integer("strides", OddName()),
    "True as dilation": not_an_integer("dilations", True),
    "a float as dilation": not_an_integer("dilations", 1.0),
    "no dilations": not_an_integer("dilations", None),
    "True in the window": not_an_integer("window_shape", (True, 2), "True", "bool"),
    "a float in the window": not_an_integer("window_shape", [3, 2.0], "2.0", "float"),
    "a nested window": not_an_integer("window_shape", ((3, 2), 2), "(3, 2)", "tuple"),
    "an array of floats as window": not_an_integer(
        "window_shape", np.array([3.0, 2.0]), "np.float64(3.0)", "float64"
    ),
    "True as padding": not_an_integer("padding", True),
    "True in a pair of padding": not_an_integer("padding", ((0, 1), (True, 1)), "True", "bool"),
    "a float as padding": not_an_integer("padding", 1.0),
    "no padding": not_an_integer("padding", None, advice="Give 0 for no padding"),
    "a set as padding": not_an_integer("padding", {1}),
    "a dict as padding": not_an_integer("padding", {"low": 1}),
    "nested pairs of padding": not_an_integer("padding", (((0, 1), 1), 1), "(0, 1)", "tuple"),
}  # fmt: skip

# Functions of the shape of an array, which also have a layout.
LAYOUT_CASES: dict[str, Case] = {
    "unknown layout": unknown_layout("channels"),
    "layout in small letters": unknown_layout("nhwc"),
    "layout with a letter twice": unknown_layout("NHHC"),
    "layout without pooled axes": unknown_layout("NC"),
    "layout with a strange letter": unknown_layout("NHWX"),
    "empty layout": unknown_layout(""),
    "no layout": unknown_layout(None),
    "a number as layout": unknown_layout(2),
    "a list as layout": unknown_layout(["NHWC"]),
    "an array as layout": unknown_layout(np.array(["N", "C"])),
    "an object as layout": unknown_layout(OddName()),
    "int window in a layout of any rank": Case(
        {"window_shape": 2},
        TypeError,
        "`window_shape` = 2 does not say how many axes are pooled",
        "With data_format 'channels_last' the window has one entry per pooled axis",
        r'a tuple such as \(2, 2\), or a layout in letters such as "NHWC"',
    ),
    "int window with channels first": Case(
        {"window_shape": np.int32(2), "data_format": "channels_first"},
        TypeError,
        "`window_shape` = .*2.* does not say how many axes are pooled",
        "With data_format 'channels_first' the window has one entry per pooled axis",
        r'a tuple such as \(2, 2\), or a layout in letters such as "NHWC"',
    ),
    "float window in a layout of letters": not_an_integer("window_shape", 2.0)._replace(
        settings={"window_shape": 2.0, "data_format": "NHWC"}
    ),
    "True as window in a layout of letters": not_an_integer("window_shape", True)._replace(
        settings={"window_shape": True, "data_format": "NHWC"}
    ),
    "0 as window in a layout of letters": too_small("window_shape", 0, 0, 1)._replace(
        settings={"window_shape": 0, "data_format": "NHWC"}
    ),
    "window shorter than the letters": Case(
        {"window_shape": (2,), "strides": 1, "data_format": "NHWC"},
        ValueError,
        "`window_shape` has 1 entr",
        "data_format 'NHWC' has 2 pooled axes",
        "one entry per pooled axis, or a layout with that many pooled axes",
    ),
    "window longer than the letters": Case(
        {"window_shape": (2, 2, 2), "strides": 1, "data_format": "NHWC"},
        ValueError,
        "`window_shape` has 3 entries",
        "data_format 'NHWC' has 2 pooled axes",
        "one entry per pooled axis, or a layout with that many pooled axes",
    ),
    "layout of fewer axes than the array": Case(
        {"data_format": "HWC"},
        ValueError,
        "the array has 4 axes",
        r"shape is \(2, 6, 7, 3\); data_format 'HWC' has 3",
        'that rank, or "channels_last" / "channels_first"',
    ),
    "layout of more axes than the array": Case(
        {"data_format": "NDHWC", "window_shape": 1, "strides": 1},
        ValueError,
        "the array has 4 axes",
        r"shape is \(2, 6, 7, 3\); data_format 'NDHWC' has 5",
        'that rank, or "channels_last" / "channels_first"',
    ),
    "more pooled axes than the array has": Case(
        {"window_shape": (1, 1, 1, 1), "strides": 1},
        ValueError,
        "the array has 4 axes, too few for 4 pooled axes",
        "'channels_last' needs 4 pooled axes and a channel axis, after any number of batch axes",
        'with channels, or a layout without them, such as "HW"',
    ),
    "more pooled axes than the array has, channels first": Case(
        {"window_shape": (1,) * 5, "strides": 1, "data_format": "channels_first"},
        ValueError,
        "the array has 4 axes, too few for 5 pooled axes",
        "'channels_first' needs 5 pooled axes and a channel axis",
        'with channels, or a layout without them, such as "HW"',
    ),
}  # fmt: skip


def unknown_implementation(word: Any, shown: str | None = None) -> Case:
    return Case(
        {"implementation": word},
        ValueError,
        f"`implementation` = {shown_as(word, shown)} is not an implementation",
        "The names are auto, .*reduce_window",
        'Leave it at "auto" unless you compare implementations',
    )


def not_an_array(shown: str, **words: Any) -> Case:
    return Case(words, TypeError, shown, "", "")


MASK_ADVICE = "Compare it first, for example `where=mask > 0`"

# Functions of an array.
ARRAY_CASES: dict[str, Case] = {
    "unknown lowering": unknown_implementation("fast"),
    "lowering in capitals": unknown_implementation("AUTO"),
    "no lowering": unknown_implementation(None),
    "a list as lowering": unknown_implementation(["auto"]),
    "an object as lowering": unknown_implementation(OddName()),
    "complex numbers": Case(
        {"x": X.astype(np.complex64)},
        TypeError,
        "the array has dtype complex64",
        "real number",
        "Pool the real and the imaginary part separately|float32",
    ),
    "keys of random numbers": Case(
        {"x": jax.random.split(jax.random.key(0), SHAPE)},
        TypeError,
        "the array has dtype key<fry>",
        "real numbers and booleans",
        "Give an array of numbers; jax.random keys are not numbers",
    ),
    "an array of objects": not_an_array("object", x=X.astype(object)),
    "an array of texts": not_an_array("<U|str", x=np.full(SHAPE, "text")),
    "a text as array": not_an_array("text", x="text"),
    "bytes in the other order": Case(
        {"x": X.astype(X.dtype.newbyteorder())},
        TypeError,
        "the array has dtype [<>]f4; it has non-native byte order",
        "JAX accepts only the byte order of this machine",
        r"x.astype\(x.dtype.newbyteorder",
    ),
    "no array": not_an_array("None", x=None),
    "a number": Case({"x": 1.0}, ValueError, "has 0 axes, too few", r"shape is \(\)", "HW"),
    "a list of numbers": Case(
        {"x": [1.0, 2.0]}, ValueError, "has 1 axis, too few", r"shape is \(2,\)", "HW"
    ),
    "rank too small": Case(
        {"x": X[0, :, :, 0]},
        ValueError,
        "the array has 2 axes, too few for 2 pooled axes",
        r"shape is \(6, 7\); 'channels_last' needs 2 pooled axes and a channel axis",
        'Give an array with channels, or a layout without them, such as "HW"',
    ),
    "zero-size pooled axis": Case(
        {"x": X[:, :0]},
        ValueError,
        "pooled axis 0 has size 0",
        "A window needs at least one element on every pooled axis",
        "Check the shape and `data_format`",
    ),
    "zero-size pooled axis with enough padding": Case(
        {"x": X[:, :, :0], "padding": 3},
        ValueError,
        "pooled axis 1 has size 0",
        "only batch and channel axes may be empty",
        "Check the shape and `data_format`",
    ),
    "zero-size pooled axis, channels first": Case(
        {"x": X[..., :0], "data_format": "NCHW"},
        ValueError,
        "pooled axis 1 has size 0",
        "only batch and channel axes may be empty",
        "Check the shape and `data_format`",
    ),
    "mask of integers": Case(
        {"where": np.ones(SHAPE, np.int32)},
        TypeError,
        "`where` has dtype int32",
        "True or False",
        MASK_ADVICE,
    ),
    "mask of floats": Case(
        {"where": jnp.ones(SHAPE)}, TypeError, "`where` has dtype float32", "True or", MASK_ADVICE
    ),
    "1 as mask": Case({"where": 1}, TypeError, "`where` has dtype int32", "True or", MASK_ADVICE),
    "mask of another shape": Case(
        {"where": np.ones((5, 7, 1), bool)},
        ValueError,
        r"`where` of shape \(5, 7, 1\) does not broadcast to the array",
        r"The array has shape \(2, 6, 7, 3\)",
        "a mask of that shape, or with axes of length 1",
    ),
    "mask of more axes": Case(
        {"where": np.ones((1, *SHAPE), bool)},
        ValueError,
        r"`where` of shape \(1, 2, 6, 7, 3\) does not broadcast to the array",
        r"The array has shape \(2, 6, 7, 3\)",
        "a mask of that shape, or with axes of length 1",
    ),
    "a text as mask": not_an_array("`where`", where="text"),
}

ALL_CASES = WINDOW_CASES | LAYOUT_CASES | ARRAY_CASES


@over_ops
@pytest.mark.parametrize("case", ALL_CASES)
def test_every_op_refuses_in_its_own_name(op: str, case: str) -> None:
    check(op, lambda: pool(op, **ALL_CASES[case].settings), ALL_CASES[case])


@pytest.mark.parametrize("op", FURTHER_OPS)
def test_further_ops_refuse_the_same(op: str) -> None:
    """Check all cases of the settings of an op."""
    known = inspect.signature(getattr(jaxpool, op)).parameters
    for name, case in ALL_CASES.items():
        has_no_such_window = op == "blur_pool" and "too long" in name
        if case.settings.keys() <= known.keys() and not has_no_such_window:
            try:
                check(op, lambda case=case: pool(op, **case.settings), case)
            except BaseException as failure:
                raise AssertionError(f"case {name!r}") from failure


@pytest.mark.parametrize("case", WINDOW_CASES)
def test_geometry_refuses_in_its_own_name(case: str) -> None:
    settings = {"window_shape": (3, 2), "strides": (1, 2), **WINDOW_CASES[case].settings}
    check("geometry", lambda: jaxpool.geometry(SHAPE[1:3], **settings), WINDOW_CASES[case])


@pytest.mark.parametrize("case", WINDOW_CASES | LAYOUT_CASES)
def test_output_shape_refuses_in_its_own_name(case: str) -> None:
    settings = {"window_shape": (3, 2), "strides": (1, 2), **ALL_CASES[case].settings}
    check("output_shape", lambda: jaxpool.output_shape(SHAPE, **settings), ALL_CASES[case])


@pytest.mark.parametrize("case", [name for name in WINDOW_CASES if "too long" not in name])
def test_window_refuses_in_its_own_name(case: str) -> None:
    settings = {"kernel": (3, 2), "strides": (1, 2), **WINDOW_CASES[case].settings}
    settings["kernel"] = settings.pop("window_shape", (3, 2))
    asked = WINDOW_CASES[case]
    own = {
        k: getattr(asked, k).replace("window_shape", "kernel") for k in ("what", "facts", "advice")
    }
    check("Window", lambda: jaxpool.Window(**settings), asked._replace(**own))


TRANSFORMATIONS: dict[str, Callable[[Callable[[Any], Any], np.ndarray], Any]] = {
    "jit": lambda call, x: jax.jit(call)(x),
    "eval_shape": lambda call, x: jax.eval_shape(call, x),
    "vmap": lambda call, x: jax.vmap(call)(x[None]),
    "grad": lambda call, x: jax.grad(lambda x: jnp.sum(jax.tree.leaves(call(x))[0]))(x),
}
PLACES = [("max_pool", place) for place in TRANSFORMATIONS] + [(op, "jit") for op in OPS][1:]


@pytest.mark.grid(2)
@pytest.mark.parametrize(("op", "place"), PLACES)
def test_an_error_inside_a_transformation_reads_the_same(op: str, place: str) -> None:
    transformed = TRANSFORMATIONS[place]
    for name, case in ALL_CASES.items():
        x = case.settings.get("x", X)
        if not (isinstance(x, np.ndarray) and x.dtype == np.float32):
            continue
        words = {key: value for key, value in case.settings.items() if key != "x"}
        call = functools.partial(lambda words, x: pool(op, x=x, **words), words)
        try:
            check(op, lambda call=call, x=x: transformed(call, x), case, times=1)
        except AssertionError as failure:
            raise AssertionError(f"case {name!r}") from failure


# --- an invalid setting that equals a valid one ---------------------------------------------------

# In Python 1 == 1.0 == True, so a cache with values as keys would return the valid one's entry.
LOOK_ALIKES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "True as strides": ({"strides": 1}, {"strides": True}, "`strides` contains True"),
    "NumPy's True as strides": (
        {"strides": 1},
        {"strides": np.True_},
        "`strides` contains np.True_",
    ),
    "float as strides": ({"strides": 2}, {"strides": 2.0}, "`strides` contains 2.0"),
    "True among strides": ({"strides": (1, 1)}, {"strides": (1, True)}, "`strides` contains True"),
    "float among strides": ({"strides": (2, 2)}, {"strides": (2, 2.0)}, "`strides` contains 2.0"),
    "floats in a list": ({"strides": [2, 2]}, {"strides": [2.0, 2]}, "`strides` contains 2.0"),
    "True in the window": (
        {"window_shape": (1, 2)},
        {"window_shape": (True, 2)},
        "`window_shape` contains True",
    ),
    "float in the window": (
        {"window_shape": (3, 2)},
        {"window_shape": (3, 2.0)},
        "`window_shape` contains 2.0",
    ),
    "True as dilations": ({"dilations": 1}, {"dilations": True}, "`dilations` contains True"),
    "float among dilations": (
        {"dilations": (1, 2)},
        {"dilations": (1, 2.0)},
        "`dilations` contains 2.0",
    ),
    "False as padding": ({"padding": 0}, {"padding": False}, "`padding` contains False"),
    "float among paddings": ({"padding": (1, 1)}, {"padding": (1, 1.0)}, "`padding` contains 1.0"),
    "True in a pair": (
        {"padding": ((1, 0), (1, 1))},
        {"padding": ((1, 0), (1, True))},
        "`padding` contains True",
    ),
    "float in a pair": (
        {"padding": ((0, 2), (1, 1))},
        {"padding": ((0, 2.0), (1, 1))},
        "`padding` contains 2.0",
    ),
}


@pytest.mark.grid(2)
@pytest.mark.parametrize("case", LOOK_ALIKES)
@over_ops
def test_a_setting_equal_to_a_right_one_is_still_refused(op: str, case: str) -> None:
    right, wrong, what = LOOK_ALIKES[case]
    jax.eval_shape(lambda x: pool(op, x=x, **right), X)
    lines = error_lines(op, TypeError, lambda: pool(op, **wrong))
    assert what in lines[0], lines


OWN_LOOK_ALIKES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "1 for True": ("avg_pool", {"count_include_pad": True}, {"count_include_pad": 1}),
    "0 for False": ("avg_pool", {"count_include_pad": False}, {"count_include_pad": 0}),
    "float divisor": ("avg_pool", {"divisor_override": 3}, {"divisor_override": 3.0}),
    "True as divisor": ("avg_pool", {"divisor_override": 1}, {"divisor_override": True}),
    "True as axis": ("max_pool_with_argmax", {"index_space": 1}, {"index_space": True}),
    "float axis": ("max_pool_with_argmax", {"index_space": 2}, {"index_space": 2.0}),
}


@pytest.mark.parametrize("case", OWN_LOOK_ALIKES)
def test_an_own_setting_equal_to_a_right_one_is_still_refused(case: str) -> None:
    op, right, wrong = OWN_LOOK_ALIKES[case]
    pool(op, **right)
    lines = error_lines(op, TypeError, lambda: pool(op, **wrong))
    assert next(iter(wrong)) in lines[0], lines


# --- settings that only one op has ----------------------------------------------------------------

AVERAGE_CASES: dict[str, Case] = {
    "booleans": Case(
        {"x": X > 3},
        TypeError,
        "the array is boolean",
        "An average of booleans is a fraction",
        r"Convert it first, for example x.astype\(jnp.float32\)",
    ),
    "divisor 0": Case(
        {"divisor_override": 0},
        ValueError,
        "`divisor_override` = 0 is out of range",
        "must not be zero nor exceed",
        "another integer, negative ones included, or None for the window's count",
    ),
    "divisor too large": Case(
        {"divisor_override": 2**28 + 1},
        ValueError,
        "`divisor_override` = 268435457 is out of range",
        r"must not be zero nor exceed 2\*\*28",
        "another integer",
    ),
    "divisor too far below zero": Case(
        {"divisor_override": -(2**28) - 1},
        ValueError,
        "`divisor_override` = -268435457 is out of range",
        r"must not be zero nor exceed 2\*\*28 in size",
        "another integer",
    ),
    "float divisor": not_an_integer("divisor_override", 2.0),
    "True as divisor": not_an_integer("divisor_override", True),
    "a divisor for each axis": not_an_integer("divisor_override", (2, 2)),
    "a text as divisor": not_an_integer("divisor_override", "4"),
} | {
    f"{value!r} as count_include_pad": Case(
        {"count_include_pad": value},
        TypeError,
        f"`count_include_pad` = {re.escape(repr(value))} is not a bool",
        "whether declared padding counts in the divisor",
        "Give True or False",
    )
    for value in (1, 0, None, "yes", np.array(True))
}


def not_an_integer_dtype(dtype: Any, shown: str | None = None) -> Case:
    return Case(
        {"index_dtype": dtype},
        TypeError,
        f"`index_dtype` = {shown_as(dtype, shown)} is not a native integer dtype",
        "Indices are integers; -1 marks a window without an element",
        "for example jnp.int32, the default",
    )


def needs_64_bits(dtype: Any) -> Case:
    return Case(
        {"index_dtype": dtype},
        ValueError,
        f"`index_dtype` = {np.dtype(dtype).name} needs 64-bit types, which are disabled",
        "JAX would truncate the indices to 32 bits",
        'jax.config.update\\("jax_enable_x64", True\\) first, or give int32',
    )


def does_not_hold(space: str | int, dtype: str, last: int, extra: str = "", **words: Any) -> Case:
    limits = np.iinfo(dtype)
    return Case(
        {"index_space": space, "index_dtype": dtype, **words},
        ValueError,
        f"indices in space {space!r} do not fit {dtype}",
        f"go up to {last}{extra}; {dtype} represents {limits.min} to {limits.max}",
        "a wider `index_dtype`, or a smaller index space",
    )


def not_an_axis(space: int) -> Case:
    return Case(
        {"index_space": space},
        ValueError,
        f"`index_space` = {space} is not an axis of the array",
        "The array has 4 axes, -4 to 3",
        "the first axis that the flat index counts",
    )


def unknown_space(word: str) -> Case:
    return Case(
        {"index_space": word},
        ValueError,
        f"`index_space` = {word!r} is not an index space",
        "window, spatial; an integer is the first axis that is counted",
        '"spatial" for PyTorch, 0 for ONNX, "window" for window offsets',
    )


LONG_WINDOW = {"x": np.zeros((1, 16, 17, 1), np.float32), "window_shape": (16, 16)}
EMPTY_WINDOW = {"padding": ((3, 0), (0, 0))}

INDEX_CASES: dict[str, Case] = {
    "unknown space": unknown_space("plane"),
    "space in capitals": unknown_space("SPATIAL"),
    "no space": not_an_integer("index_space", None),
    "float axis": not_an_integer("index_space", 1.0),
    "True as axis": not_an_integer("index_space", True),
    "axes": not_an_integer("index_space", (1, 2)),
    "axis past the last": not_an_axis(4),
    "axis before the first": not_an_axis(-5),
    "float32": not_an_integer_dtype(np.float32),
    "bfloat16": not_an_integer_dtype(jnp.bfloat16),
    "bool": not_an_integer_dtype(bool),
    "complex": not_an_integer_dtype("complex64"),
    "object": not_an_integer_dtype(object),
    "no dtype": not_an_integer_dtype("int33"),
    "a number as dtype": not_an_integer_dtype(32),
    "a dict as dtype": not_an_integer_dtype({}),
    "a list as dtype": not_an_integer_dtype(["int32"]),
    "an object as dtype": not_an_integer_dtype(OddName()),
    "int64": needs_64_bits("int64"),
    "uint64": needs_64_bits(np.uint64),
    "Python's int": needs_64_bits(int),
    "int8, spatial": does_not_hold("spatial", "int8", 159, x=np.zeros((1, 16, 10, 1), np.float32)),
    "int8, axis": does_not_hold(1, "int8", 125, x=np.zeros((1, 6, 7, 4), np.float32))._replace(
        facts="go up to 167; int8 represents -128 to 127"
    ),
    "uint8, whole array": does_not_hold(0, "uint8", 335, x=np.zeros((2, 6, 7, 4), np.float32)),
    "uint32, spatial, empty windows": does_not_hold(
        "spatial", "uint32", 41, " and -1 must mark a window without an element", **EMPTY_WINDOW
    ),
    "uint16, axis, masked": does_not_hold(
        3, "uint16", 2, " and -1 must mark a window without an element", where=np.ones(SHAPE, bool)
    ),
    "int8, 256 taps": does_not_hold("window", "int8", 255, **LONG_WINDOW),
    "uint8, 256 taps": does_not_hold(
        "window", "uint8", 255, " and 255 must mark a window without an element", **LONG_WINDOW
    ),
}


@pytest.mark.parametrize("case", AVERAGE_CASES)
def test_avg_pool_refuses_its_own_settings(case: str) -> None:
    settings = AVERAGE_CASES[case].settings
    check("avg_pool", lambda: pool("avg_pool", **settings), AVERAGE_CASES[case])


@pytest.mark.parametrize("case", INDEX_CASES)
def test_max_pool_with_argmax_refuses_its_own_settings(case: str) -> None:
    settings, op = INDEX_CASES[case].settings, "max_pool_with_argmax"
    check(op, lambda: pool(op, **settings), INDEX_CASES[case])


def test_an_index_dtype_of_the_other_byte_order_is_refused() -> None:
    dtype = np.dtype(np.int32).newbyteorder()
    op = "max_pool_with_argmax"
    lines = error_lines(op, TypeError, lambda: pool(op, index_dtype=dtype))
    assert "`index_dtype`" in lines[0], lines


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_an_array_of_too_many_elements_for_its_indices_is_refused(dtype: str) -> None:
    shape = (2**12, 2**12, 2**12, 3)
    case = does_not_hold(0, dtype, 3 * 2**36 - 1)
    array = jax.ShapeDtypeStruct(shape, np.float32)

    def call() -> Any:
        return jax.eval_shape(lambda x: pool("max_pool_with_argmax", x=x, **case.settings), array)

    check("max_pool_with_argmax", call, case)
    case.settings["index_space"] = 2
    assert call()[1].dtype == dtype


# --- traced settings ------------------------------------------------------------------------------

TRACED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "strides": lambda n: {"strides": n},
    "one of strides": lambda n: {"strides": (1, n)},
    "window_shape": lambda n: {"window_shape": (n, 2)},
    "dilations": lambda n: {"dilations": n},
    "padding": lambda n: {"padding": n},
    "one end of padding": lambda n: {"padding": ((n, 0), (0, 0))},
}


@pytest.mark.parametrize("case", TRACED)
@over_ops
def test_a_traced_integer_is_no_setting(op: str, case: str) -> None:
    expected = Case({}, TypeError, "contains .* is not an integer", "Tracer", "static_argnums")
    for transform in (jax.jit, lambda f: jax.vmap(lambda n: f(n[0]))):
        traced = transform(lambda n: pool(op, **TRACED[case](n)))
        number = 1 if transform is jax.jit else jnp.ones((2, 1), np.int32)
        check(op, lambda f=traced, n=number: f(n), expected)


@over_ops
def test_traced_strides_in_one_array_are_no_setting(op: str) -> None:
    expected = Case({}, TypeError, "strides` contains .*not an integer", "Tracer", "static_argnums")
    check(op, lambda: jax.jit(lambda n: pool(op, strides=n))(jnp.array([1, 2])), expected)


def test_a_traced_own_setting_is_refused() -> None:
    for op, name in (
        ("avg_pool", "divisor_override"),
        ("avg_pool", "count_include_pad"),
        ("max_pool_with_argmax", "index_space"),
    ):
        expected = Case({}, TypeError, f"`{name}`", "", "")
        value = name != "count_include_pad" or True
        call = jax.jit(lambda n, op=op, name=name: pool(op, **{name: n}))
        check(op, lambda call=call, value=value: call(value), expected)


# --- shapes ---------------------------------------------------------------------------------------

SHAPES: dict[str, tuple[Callable[[], Any], str, type[Exception], str]] = {
    "a number as input_shape": (
        lambda: jaxpool.output_shape(5, (2,), 1),  # pyright: ignore[reportArgumentType]
        "output_shape",
        TypeError,
        "`input_shape`",
    ),
    "no input_shape": (
        lambda: jaxpool.output_shape(None, (2,), 1),  # pyright: ignore[reportArgumentType]
        "output_shape",
        TypeError,
        "`input_shape`",
    ),
    "an array for input_shape": (
        lambda: jaxpool.output_shape(X, (2,), 1),  # pyright: ignore[reportArgumentType]
        "output_shape",
        TypeError,
        "is not a shape",
    ),
    "a float in input_shape": (
        lambda: jaxpool.output_shape((2, 6.0, 3), (2,), 1),  # pyright: ignore[reportArgumentType]
        "output_shape",
        TypeError,
        "`input_shape` contains 6.0, which is not an integer",
    ),
    "a negative length in input_shape": (
        lambda: jaxpool.output_shape((2, 6, -3), (2,), 1),
        "output_shape",
        ValueError,
        "`input_shape` contains -3",
    ),
    "a pooled length of 0 in input_shape": (
        lambda: jaxpool.output_shape((2, 0, 3), (2,), 1, 2),
        "output_shape",
        ValueError,
        "pooled axis 0 has size 0",
    ),
    "no axes in input_shape": (
        lambda: jaxpool.output_shape((), (2,), 1),
        "output_shape",
        ValueError,
        "the array has 0 axes, too few for 1 pooled",
    ),
    "too few spatial lengths": (
        lambda: jaxpool.geometry((6,), (3, 2), 1),
        "geometry",
        ValueError,
        r"`spatial_shape` = \(6,\) has 1 entry\.$",
    ),
    "too many spatial lengths": (
        lambda: jaxpool.geometry((6, 7, 8), (3, 2), 1),
        "geometry",
        ValueError,
        r"`spatial_shape` = \(6, 7, 8\) has 3 entries",
    ),
    "an int as window for two spatial lengths": (
        lambda: jaxpool.geometry((6, 7), 3, 1),
        "geometry",
        ValueError,
        r"`spatial_shape` = \(6, 7\) has 2 entries",
    ),
    "a spatial length of 0": (
        lambda: jaxpool.geometry((6, 0), (3, 2), 1, 2),
        "geometry",
        ValueError,
        "pooled axis 1 has size 0",
    ),
    "a float as spatial length": (
        lambda: jaxpool.geometry((6.0, 7), (3, 2), 1),  # pyright: ignore[reportArgumentType]
        "geometry",
        TypeError,
        "`spatial_shape` contains 6.0",
    ),
    "an array for spatial_shape": (
        lambda: jaxpool.geometry(X[0, :2, :3, 0], (3, 2), 1),  # pyright: ignore
        "geometry",
        TypeError,
        "`spatial_shape` contains",
    ),
}


@pytest.mark.parametrize("case", SHAPES)
def test_a_bad_shape_is_refused(case: str) -> None:
    call, op, error, what = SHAPES[case]
    check(op, call, Case({}, error, what, "", ""))


def test_lengths_and_window_of_a_geometry_are_compared() -> None:
    lines = error_lines("geometry", ValueError, lambda: jaxpool.geometry((6, 7), 3, 1))
    assert lines[1] == "  `window_shape` has 1 entry.", lines
    assert "one entry per pooled axis, such as (112, 112) and (3, 3)" in lines[2], lines


@pytest.mark.parametrize("op", ["max_pool", "avg_pool", "median_pool", "max_blur_pool"])
def test_a_window_that_fits_with_channels_first_gets_advice(op: str) -> None:
    pool = getattr(jaxpool, op)
    first = jnp.zeros((2, 3, 9, 8))
    advice = error_lines(op, ValueError, lambda: pool(first, (5, 7), 1))[2]
    assert advice.endswith('If the channels come first, give `data_format`="channels_first".')
    assert pool(first, (5, 7), 1, data_format="channels_first").shape[:2] == (2, 3)
    for other in (first[..., :6], first[:, :, 0]):
        lines = error_lines(op, ValueError, lambda x=other: pool(x, (5, 7), 1))
        assert "channels" not in lines[2], lines


def test_a_negative_length_is_not_called_padding() -> None:
    call = lambda: jaxpool.output_shape((2, 6, -3), (2,), 1)  # noqa: E731
    lines = error_lines("output_shape", ValueError, call)
    assert "padding" not in lines[2], lines


# --- numbers that no array of JAX can have --------------------------------------------------------

ENORMOUS: dict[str, dict[str, Any]] = {
    "strides": {"strides": 2**70},
    "dilations": {"window_shape": (1, 2), "dilations": (2**70, 1)},
    "kernel": {"window_shape": (2**70, 2)},
    "kernel of one axis": {"window_shape": (1, 2**40)},
    "a range of strides": {"strides": range(2**70)},
    "a range as window": {"window_shape": range(2**70)},
    "a range of padding": {"padding": range(2**70)},
}


@pytest.mark.grid(3)
@pytest.mark.parametrize("case", ENORMOUS)
@over_ops
def test_an_enormous_number_is_an_error_or_right(op: str, case: str) -> None:
    settings = ENORMOUS[case]
    try:
        result = jax.tree.leaves(pool(op, **settings))[0]
    except (TypeError, ValueError) as error:
        name = next(reversed(settings))
        check(op, lambda: pool(op, **settings), Case({}, type(error), f"`{name}`", "", ""))
    else:
        smaller = {name: 50 if value == 2**70 else (50, 1) for name, value in settings.items()}
        smaller["window_shape"] = settings.get("window_shape", (3, 2))
        assert_same(result, jax.tree.leaves(pool(op, **smaller))[0], case)


# --- implementations ------------------------------------------------------------------------------


def unsupported() -> dict[str, tuple[dict[str, Any], str]]:
    """Return settings that an implementation does not support for a maximum, and the reason."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    for name, row in IMPLEMENTATIONS.items():
        if not hasattr(row.module, "reduce"):
            continue
        for length in (1, 2, 3, 5, 8, 16, 33, 64, 130, 257, 600, 1200):
            settings = {"window_shape": (length, 2), "strides": 1, "padding": "SAME"}
            geometry = jaxpool.geometry(SHAPE[1:3], **settings)
            asked = Request("reduce", geometry, jaxpool.reductions.MAX, X.dtype, False, "cpu")
            if reason := row.module.unsupported_reason(asked):
                found[name] = settings, reason
                break
    return found


UNSUPPORTED = unsupported()


def test_some_implementation_does_not_support_all() -> None:
    assert UNSUPPORTED and "reduce_window" not in UNSUPPORTED


@pytest.mark.parametrize("implementation", UNSUPPORTED)
def test_an_implementation_gives_its_reason(implementation: str) -> None:
    settings, _ = UNSUPPORTED[implementation]
    window = jaxpool.geometry(SHAPE[1:3], **settings)
    case = Case(
        {},
        NotImplementedError,
        f"`implementation` = {implementation!r} does not support these windows",
        "The reason: .*(window|element)",
        'Use implementation="auto" \\(would choose .*\\)',
    )
    for op in ("max_pool", "min_pool", "max_pool_with_argmax"):
        check(op, lambda op=op: pool(op, implementation=implementation, **settings), case)
    assert window.kernel == settings["window_shape"]


# --- inputs on which the large runtimes differ: accepted or rejected ------------------------------

LINE = np.array([1.0, 2.0, 4.0], np.float32)
INF = float("inf")


def along_a_line(op: str, window: int, strides: int = 1, padding: Any = 0, **words: Any) -> list:
    """Return ``LINE`` pooled; for max_pool_with_argmax its indices."""
    result = OPS[op](LINE, window, strides, padding, data_format="W", **words)
    return np.asarray(jax.tree.leaves(result)[-1]).tolist()


REJECTED = {
    "stride 0": "stride 0",
    "dilation 0": "dilation 0",
    "kernel 0": "kernel 0",
    "kernel longer than the padded axis, floor": "kernel too long",
    "kernel longer than the padded axis, ceil_torch": "kernel too long, ceil_torch",
    "negative pads, one end": "negative low padding",
    "negative pads, both ends": "negative padding",
    "spatial 0": "zero-size pooled axis",
    "spatial 0 that pads would make fit": "zero-size pooled axis with enough padding",
    "rank": "rank too small",
    "kernel length differs from spatial rank": "window longer than the letters",
    "negative stride": "negative stride",
}


@pytest.mark.parametrize("row", REJECTED)
def test_rows_of_the_table_that_are_rejected(row: str) -> None:
    case = ALL_CASES[REJECTED[row]]
    for op in OPS:
        check(op, lambda op=op: pool(op, **case.settings), case)


# row -> window, strides, padding, settings, and the result of each op
Row = tuple[int, int, Any, dict[str, Any], dict[str, list]]
ACCEPTED: dict[str, Row] = {
    "pad 2, kernel 3: more than half": (3, 1, 2, {}, {
        "max_pool": [1, 2, 4, 4, 4],
        "min_pool": [1, 1, 1, 2, 4],
        "max_pool_with_argmax": [0, 1, 2, 2, 2],
        "avg_pool": [1 / 3, 1, 7 / 3, 2, 4 / 3],
        "sum_pool": [1, 3, 7, 6, 4],
    }),
    "pad equal to the kernel": (1, 1, 1, {}, {
        "max_pool": [-INF, 1, 2, 4, -INF],
        "min_pool": [INF, 1, 2, 4, INF],
        "max_pool_with_argmax": [-1, 0, 1, 2, -1],
        "avg_pool": [0, 1, 2, 4, 0],
        "sum_pool": [0, 1, 2, 4, 0],
    }),
    "pad longer than the kernel": (2, 2, (3, 4), {}, {
        "max_pool": [-INF, 1, 4, -INF, -INF],
        "min_pool": [INF, 1, 2, INF, INF],
        "max_pool_with_argmax": [-1, 0, 2, -1, -1],
        "avg_pool": [0, 0.5, 3, 0, 0],
        "sum_pool": [0, 1, 6, 0, 0],
    }),
    "no element between the taps of a dilated window": (2, 1, 1, {"dilations": 4}, {
        "max_pool": [-INF],
        "min_pool": [INF],
        "max_pool_with_argmax": [-1],
        "avg_pool": [0],
        "sum_pool": [0],
    }),
}  # fmt: skip


@pytest.mark.parametrize("row", ACCEPTED)
@over_ops
def test_rows_of_the_table_that_are_accepted(op: str, row: str) -> None:
    window, strides, padding, words, results = ACCEPTED[row]
    padding = [padding] if isinstance(padding, tuple) else padding
    got = along_a_line(op, window, strides, padding, **words)
    np.testing.assert_allclose(got, results[op], rtol=1e-6)


@pytest.mark.parametrize("padding", [0, 1, 3])
def test_an_exclusive_average_of_a_window_without_an_element_is_zero(padding: int) -> None:
    got = along_a_line("avg_pool", 1, 1, padding, count_include_pad=False)
    assert got == [0.0] * padding + [1.0, 2.0, 4.0] + [0.0] * padding


@pytest.mark.parametrize("shape", [(0, 6, 7, 3), (2, 6, 7, 0), (0, 2, 6, 7, 3), (0, 6, 7, 0)])
@over_ops
def test_an_empty_batch_and_no_channels_are_accepted(op: str, shape: tuple[int, ...]) -> None:
    for part in jax.tree.leaves(pool(op, x=np.zeros(shape, np.float32))):
        assert part.shape == (*shape[:-3], 4, 3, shape[-1])


# Ranks that the large runtimes limit to 3, 4 and 5: with and without batch, up to four pooled axes.
RANKS: Sequence[tuple[tuple[int, ...], int]] = [
    ((5, 2), 1), ((2, 5, 2), 1), ((2, 3, 4, 5, 2), 1), ((5, 6, 2), 2), ((2, 2, 2, 5, 6, 2), 2),
    ((4, 5, 6, 2), 3), ((2, 4, 5, 6, 1), 3), ((2, 3, 4, 3, 5, 1), 4),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "count"), RANKS)
@over_ops
def test_every_rank_is_accepted(op: str, shape: tuple[int, ...], count: int) -> None:
    words = {"window_shape": (2,) * count, "strides": 1}
    result = jax.eval_shape(lambda x: pool(op, x=x, **words), np.ones(shape, np.float32))
    pooled = tuple(size - 1 for size in shape[-1 - count : -1])
    assert jax.tree.leaves(result)[0].shape == (*shape[: -1 - count], *pooled, shape[-1])


def test_a_window_longer_than_the_axis_is_accepted_when_padding_makes_it_fit() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    got = jaxpool.avg_pool(x, 3, 1, 1, data_format="DHW", count_include_pad=False)
    assert_same(got, np.full((2, 2, 2), 3.5, np.float32), "3-D average, K > L")


def test_negative_padding_is_not_cropping_and_cropping_is() -> None:
    assert along_a_line("max_pool", 2, 1, 0) == [2.0, 4.0]
    got = jaxpool.max_pool(LINE[1:], 2, 1, 0, data_format="W")
    assert np.asarray(got).tolist() == [4.0]


REAL_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "fill": lambda n: jaxpool.windows(X, (2, 3), (2, 1), 1, fill=n),
    "q": lambda n: jaxpool.quantile_pool(X, n, (2, 3), (2, 1)),
    "temperature": lambda n: jaxpool.logsumexp_pool(X, (2, 3), (2, 1), temperature=n),
    "p": lambda n: jaxpool.lp_pool(X, (2, 3), (2, 1), p=n),
    "eps": lambda n: jaxpool.gem_pool(X, (2, 3), (2, 1), eps=n),
    "cval": lambda n: filters.maximum_filter(X, 2, mode="constant", cval=n),
    "norm_type": lambda n: compat.torch.lp_pool2d(X, n, (2, 3)),
    "exponent of ONNX": lambda n: compat.onnx.lp_pool(X, (2, 3), p=n),
}


@pytest.mark.parametrize("name", REAL_NUMBERS)
@pytest.mark.parametrize("value", ["0.5", None, 1j, [0.5, 1.0]], ids=str)
def test_what_is_no_real_number_is_refused_in_one_form(name: str, value: Any) -> None:
    with pytest.raises(TypeError) as caught:
        REAL_NUMBERS[name](value)
    what, facts, advice = str(caught.value).split("\n")
    assert "`" in what and what.endswith(" is not a real number.")
    assert facts.strip() == f"Its type is {type(value).__name__}."
    assert advice.strip().startswith("Give a static Python or NumPy number, such as ")


@pytest.mark.parametrize(
    "call",
    [
        lambda n: jaxpool.gem_pool(X, (2, 3), 1, p=n),
        lambda n: jaxpool.logsumexp_pool(X, (2, 3), 1, temperature=n),
        lambda n: jaxpool.global_logsumexp_pool(X, temperature=n),
    ],
    ids=["gem_pool", "logsumexp_pool", "global_logsumexp_pool"],
)
def test_the_advice_names_arrays_where_they_are_accepted(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"such as 1\.0, or an array of numbers\."):
        call([1.0] * X.shape[-1])
    call(np.ones(X.shape[-1], np.float32))


@pytest.mark.parametrize("name", REAL_NUMBERS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_a_numpy_number_is_equal_to_that_of_python(name: str, dtype: str) -> None:
    number = np.array(0.5, jnp.dtype(dtype))[()]
    assert isinstance(number, np.generic)
    assert_same(REAL_NUMBERS[name](number), REAL_NUMBERS[name](0.5), name)
