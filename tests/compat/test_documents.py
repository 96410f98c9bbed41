"""Every worked example and formula of the documents that specify pooling.

The documents: OpenVINO's MaxPool-1 and AvgPool-1, OpenVINO's "Shape Calculation Rules for Pooling
Operators", the max pooling kernel of the embARC MLI library, and oneDNN's pooling primitive. If a
document has a misprint, the test says so, uses the behaviour of the runtime, and checks that the
printed form is wrong.
"""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool

# --- OpenVINO: the worked examples of MaxPool-1 and of the shape rules ----------------------------

MATRIX = [[[[-1, 2, 3], [4, 5, -6], [-7, 8, 9]]]]
MATRIX_2 = [[[[-1, 2, 3], [4, 5, -6], [-7, 8, 9]], [[2, -1, 5], [6, -7, 1], [8, 2, -3]]]]
COUNTING = [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]
COUNTING_2 = [
    [[[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[10, 11, 12], [13, 14, 15], [16, 17, 18]]],
]


def max_pool(x: Any, kernel: Any, strides: Any, padding: Any, axis: int = 0, **words: Any) -> Any:
    """Return MaxPool with OpenVINO's conventions: channels first, indices flat from ``axis`` on."""
    x = np.array(x, np.float32)
    values, indices = jaxpool.max_pool_with_argmax(
        x, kernel, strides, padding, data_format="channels_first", index_space=axis, **words
    )
    assert np.array_equal(
        values, jaxpool.max_pool(x, kernel, strides, padding, data_format="channels_first", **words)
    )
    return values.tolist(), indices.tolist()


def test_example_1_explicit_padding() -> None:
    """Example 1 of both pages. Misprint: the last element of row 1 is printed as -6, index 5.

    That window has 3 (index 2) and -6 (index 5), so its maximum is 3; OpenVINO, ONNX Runtime and
    PyTorch all return 3.
    """
    values, indices = max_pool(MATRIX, (2, 2), (1, 1), ((1, 1), (1, 1)))
    printed_values = [[[[-1, 2, 3, 3], [4, 5, 5, -6], [4, 8, 9, 9], [-7, 8, 9, 9]]]]
    printed_indices = [[[[0, 1, 2, 2], [3, 4, 4, 5], [3, 7, 8, 8], [6, 7, 8, 8]]]]
    assert values != printed_values and indices != printed_indices
    printed_values[0][0][1][3], printed_indices[0][0][1][3] = 3, 2
    assert values == printed_values
    assert indices == printed_indices


def test_example_2_valid_in_one_dimension() -> None:
    values, indices = max_pool([[[-1, 2, 3, 5, -7, 9, 1]]], (3,), (1,), "valid")
    assert values == [[[3, 5, 5, 9, 9]]]
    assert indices == [[[2, 3, 3, 5, 5]]]


def test_example_3_same_lower() -> None:
    values, indices = max_pool(MATRIX, (2, 2), (1, 1), "same_lower")
    assert values == [[[[-1, 2, 3], [4, 5, 5], [4, 8, 9]]]]
    assert indices == [[[[0, 1, 2], [3, 4, 4], [3, 7, 8]]]]


def test_example_4_same_upper_and_two_channels() -> None:
    """The indices continue from one channel to the next."""
    values, indices = max_pool(MATRIX_2, (2, 2), (1, 1), "same_upper")
    assert values == [
        [[[5, 5, 3], [8, 9, 9], [8, 9, 9]], [[6, 5, 5], [8, 2, 1], [8, 2, -3]]],
    ]
    assert indices == [
        [[[4, 4, 2], [7, 8, 8], [7, 8, 8]], [[12, 11, 11], [15, 16, 14], [15, 16, 17]]],
    ]


def test_example_5_of_the_shape_rules_ceil_torch() -> None:
    values, indices = max_pool(COUNTING, (2, 2), (2, 2), ((1, 1), (1, 1)), rounding="ceil_torch")
    assert values == [[[[1, 3], [7, 9]]]]
    assert indices == [[[[0, 2], [6, 8]]]]


def test_example_6_valid_and_ceil() -> None:
    """Example 5 of MaxPool-1, example 6 of the shape rules.

    It contradicts the formula that the shape rules print for "valid", which knows no rounding.
    """
    values, indices = max_pool(MATRIX, (2, 2), (2, 2), "valid", rounding="ceil")
    assert values == [[[[5, 3], [8, 9]]]]
    assert indices == [[[[4, 2], [7, 8]]]]
    printed_size = -(-(3 - 2 + 1) // 2)
    assert printed_size == 1


def test_example_7_dilation() -> None:
    values, indices = max_pool(
        COUNTING, (2, 2), (1, 1), ((1, 1), (1, 1)), dilations=(2, 2), rounding="floor"
    )
    assert values == [[[[5, 6, 5], [8, 9, 8], [5, 6, 5]]]]
    assert indices == [[[[4, 5, 4], [7, 8, 7], [4, 5, 4]]]]


def test_example_8_axis_2() -> None:
    """Indices flat over the last two axes: they restart in every channel."""
    values, indices = max_pool(COUNTING_2, (2, 2), (1, 1), ((0, 0), (0, 0)), axis=2)
    assert values == [[[[5, 6], [8, 9]], [[14, 15], [17, 18]]]]
    assert indices == [[[[4, 5], [7, 8]], [[4, 5], [7, 8]]]]
    assert indices == max_pool(COUNTING_2, (2, 2), (1, 1), 0, axis=-2)[1]


# --- OpenVINO: the XML examples, all of 1 x 3 x 32 x 32 -------------------------------------------

ONE = ((1, 1), (1, 1))

# (document, auto_pad, kernel, strides, declared pads, printed size, real size)
XML_EXAMPLES = [
    # Misprint: "same" is said to keep the size, which is true only for strides of 1.
    ("MaxPool-1", "same_upper", (2, 2), (2, 2), ONE, 32, 16),
    ("MaxPool-1", "explicit", (2, 2), (2, 2), ONE, 17, 17),
    ("MaxPool-1", "valid", (2, 2), (2, 2), ONE, 16, 16),
    # Misprints, twice the same one.
    ("AvgPool-1", "same_upper", (2, 2), (2, 2), ((0, 1), (0, 1)), 32, 16),
    ("AvgPool-1", "same_upper", (5, 5), (2, 2), ((0, 1), (0, 1)), 32, 16),
    ("AvgPool-1", "explicit", (5, 5), (3, 3), ONE, 10, 10),
    ("AvgPool-1", "explicit", (5, 5), (2, 2), ONE, 15, 15),
    ("AvgPool-1", "valid", (5, 5), (2, 2), ONE, 14, 14),
]


@pytest.mark.parametrize(
    ("document", "auto_pad", "kernel", "strides", "pads", "printed", "real"), XML_EXAMPLES
)
def test_xml_shape_examples(
    document: str, auto_pad: str, kernel: Any, strides: Any, pads: Any, printed: int, real: int
) -> None:
    """Declared pads count only under "explicit"."""
    padding = pads if auto_pad == "explicit" else auto_pad
    shape = jaxpool.output_shape(
        (1, 3, 32, 32), kernel, strides, padding, data_format="channels_first"
    )
    assert shape == (1, 3, real, real)
    assert (printed != real) == (auto_pad == "same_upper")


def test_xml_averages() -> None:
    """The AvgPool-1 examples as values: exclude-pad="true" counts elements, "false" padding too."""
    x = np.arange(3 * 32 * 32, dtype=np.float32).reshape(1, 3, 32, 32)
    plane = x[0, 1]
    padded = np.pad(plane, 1)

    same = jaxpool.avg_pool(
        x, (2, 2), (2, 2), "same_upper", count_include_pad=False, data_format="NCHW"
    )
    assert same[0, 1, 15, 15] == plane[30:, 30:].mean()
    excluded = jaxpool.avg_pool(x, (5, 5), (3, 3), 1, count_include_pad=False, data_format="NCHW")
    assert excluded[0, 1, 0, 0] == plane[:4, :4].mean()
    included = jaxpool.avg_pool(x, (5, 5), (2, 2), 1, count_include_pad=True, data_format="NCHW")
    np.testing.assert_allclose(included[0, 1, 0, 0], padded[:5, :5].sum() / 25, rtol=1e-6)
    assert included[0, 1, 0, 0] < excluded[0, 1, 0, 0]


# --- OpenVINO: the formulas -----------------------------------------------------------------------

SIZES = list(itertools.product(range(1, 9), range(1, 5), range(1, 5), range(3), range(3)))


def out(size: int, kernel: int, stride: int, padding: Any, **words: Any) -> int:
    """Return the number of windows of one axis."""
    return jaxpool.geometry(size, kernel, stride, padding, **words).out_shape[0]


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("rounding", ["floor", "ceil"])
def test_explicit_size_formula_of_the_shape_rules(rounding: str, dilation: int) -> None:
    """H_out = round((H + pads_begin + pads_end - ((kernel - 1) * dilation + 1)) / stride + 1)."""
    function = math.floor if rounding == "floor" else math.ceil
    tried = 0
    for size, kernel, stride, begin, end in SIZES:
        room = size + begin + end - ((kernel - 1) * dilation + 1)
        if room < 0:
            continue
        words: dict[str, Any] = {"dilations": dilation, "rounding": rounding}
        assert out(size, kernel, stride, ((begin, end),), **words) == function(room / stride + 1)
        tried += 1
    assert tried > 500


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
def test_explicit_size_formula_of_maxpool_1_lacks_brackets(rounding: str) -> None:
    """Printed: H_out = floor(H + pads_begin + pads_end - kernel / strides) + 1.

    Misprint: the whole difference is divided, (H + pads_begin + pads_end - kernel) / strides, as
    the page's own examples show (32 + 2 - 2, strides 2: 17). Read as printed it gives 34. AvgPool-1
    prints the same without any rounding, and H in place of W and D.
    """
    function = math.floor if rounding == "floor" else math.ceil
    for size, kernel, stride, begin, end in SIZES:
        room = size + begin + end - kernel
        if room >= 0:
            got = out(size, kernel, stride, ((begin, end),), rounding=rounding)
            assert got == function(room / stride) + 1
    as_printed = function(32 + 1 + 1 - 2 / 2) + 1
    assert (out(32, 2, 2, 1, rounding=rounding), as_printed) == (17, 34)


def test_valid_ignores_pads_but_not_rounding() -> None:
    """The shape rules print ceil((H - kernel + 1) / strides), which is the floor size.

    Their own example 6 rounds up, and so does OpenVINO.
    """
    for size, kernel, stride, _, _ in SIZES:
        if kernel <= size:
            printed = math.ceil((size - kernel + 1) / stride)
            assert out(size, kernel, stride, "valid") == printed
            real = math.ceil((size - kernel) / stride) + 1
            assert out(size, kernel, stride, "valid", rounding="ceil") == real
    assert out(3, 2, 2, "valid") == 1 and out(3, 2, 2, "valid", rounding="ceil") == 2


@pytest.mark.parametrize("word", ["same_upper", "same_lower"])
def test_same_keeps_the_size_at_stride_1_alone(word: str) -> None:
    """Printed: H_out = H. Misprint: true at strides of 1; else ceil(H / strides)."""
    for size, kernel, stride, _, _ in SIZES:
        assert out(size, kernel, stride, word) == math.ceil(size / stride)
        assert out(size, kernel, 1, word, rounding="ceil") == size
    # The same page says that rounding plays no part; plain ceil can add a window.
    assert out(5, 1, 3, word) == 2 and out(5, 1, 3, word, rounding="ceil") == 3


def test_same_upper_puts_the_odd_element_at_the_end_and_same_lower_at_the_beginning() -> None:
    """As printed: "an extra padding is added at the end (at the beginning)"."""
    upper, lower = (
        jaxpool.geometry(6, 3, 2, word).axes[0] for word in ("same_upper", "same_lower")
    )
    assert (upper.pad_low, upper.pad_high) == (0, 1)
    assert (lower.pad_low, lower.pad_high) == (1, 0)


def test_ceil_torch_drops_a_window_that_starts_past_the_low_padding_and_the_data() -> None:
    """Printed: the last window "cannot start in the padding area".

    Incomplete: that is the end padding. A window may start in the begin padding, and the rule holds
    also where nothing is rounded.
    """
    assert out(4, 2, 4, ((0, 1),), rounding="ceil") == 2
    assert out(4, 2, 4, ((0, 1),), rounding="ceil_torch") == 1
    begins_in_padding = jaxpool.geometry(4, 2, 4, ((1, 0),), rounding="ceil_torch")
    assert begins_in_padding.out_shape == (2,) and begins_in_padding.axes[0].start(0) == -1
    exact = [out(4, 2, 4, ((0, 2),), rounding=r) for r in ("floor", "ceil", "ceil_torch")]
    assert exact == [2, 2, 1]


@pytest.mark.parametrize("name", ["strides", "dilations"])
def test_strides_and_dilations_start_at_1(name: str) -> None:
    """Misprint: "integer values starting from 0". OpenVINO rejects 0."""
    settings: dict[str, Any] = {"strides": 1, "dilations": 1, name: 0}
    with pytest.raises(ValueError, match=f"`{name}` contains 0"):
        jaxpool.geometry(5, 2, settings["strides"], dilations=settings["dilations"])


def test_padding_of_a_maximum_is_minus_infinity() -> None:
    """As printed. OpenVINO itself starts from the lowest finite float, jaxpool from -inf."""
    values, indices = max_pool([[[1, 2, 3, 4]]], (2,), (4,), ((0, 1),), rounding="ceil")
    assert values == [[[2, -math.inf]]]
    assert indices == [[[1, -1]]]


def test_spatial_order_of_strides() -> None:
    """strides "4,2,1" slide 4 over depth, 2 over height and 1 over width; channels first.

    The page writes the shape as [N, C, H, W, D]; the first entry belongs to the first such axis.
    """
    shape = jaxpool.output_shape(
        (1, 1, 9, 9, 9), (1, 1, 1), (4, 2, 1), data_format="channels_first"
    )
    assert shape == (1, 1, 3, 5, 9)


def test_average_formula_of_avgpool_1() -> None:
    """output_j = sum of x_i over the window / n; "true" leaves padding out of n."""
    x = np.array([[[1, 2, 3, 4, 5, 6]]], np.float32)
    words: dict[str, Any] = {"data_format": "NCW"}
    excluded = jaxpool.avg_pool(x, (3,), 2, 1, count_include_pad=False, **words)
    included = jaxpool.avg_pool(x, (3,), 2, 1, count_include_pad=True, **words)
    assert excluded.tolist() == [[[(1 + 2) / 2, (2 + 3 + 4) / 3, (4 + 5 + 6) / 3]]]
    assert included.tolist() == [[[(1 + 2) / 3, (2 + 3 + 4) / 3, (4 + 5 + 6) / 3]]]


# --- embARC MLI: the max pooling kernel -----------------------------------------------------------


def mli_pad(height: int, width: int, top: int, bottom: int, left: int, right: int) -> Any:
    """Return the four paddings of ``mli_pool_cfg`` as pairs, if the document allows them."""
    assert 0 <= top < height and 0 <= bottom < height
    assert 0 <= left < width and 0 <= right < width
    return (top, bottom), (left, right)


def test_mli_max_pool_treats_channels_independently_in_both_layouts() -> None:
    """Three-dimensional maps, HWC and CHW; the maximum of each fragment of each channel.

    TensorFlow's rule: padding is no value, so it never wins over negative data.
    """
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 0, (5, 7, 2)).astype(np.int8)
    padding = mli_pad(3, 2, top=2, bottom=1, left=1, right=0)
    got = np.asarray(jaxpool.max_pool(x, (3, 2), (2, 3), padding, data_format="HWC"))
    rows = range(-2, 5 + 1 - 3 + 1, 2)
    columns = range(-1, 7 + 0 - 2 + 1, 3)
    for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
        fragment = x[max(row, 0) : row + 3, max(column, 0) : column + 2]
        assert got[i, j].tolist() == fragment.max(axis=(0, 1)).tolist()
    assert got.shape == (len(rows), len(columns), 2)
    assert got.dtype == x.dtype  # "element type ... copied from the input tensor"
    chw = jaxpool.max_pool(x.transpose(2, 0, 1), (3, 2), (2, 3), padding, data_format="CHW")
    assert np.array_equal(chw, got.transpose(2, 0, 1))


def test_mli_max_pool_accepts_dimensions_of_1() -> None:
    """ "Three-dimensional tensors even if one of dimensions is equal to 1"."""
    x = np.array([3, -5, 7, 1], np.int16)
    assert jaxpool.max_pool(x.reshape(1, 4, 1), (1, 2), (1, 2), data_format="HWC").tolist() == [
        [[3], [7]]
    ]
    assert jaxpool.max_pool(x.reshape(4, 1, 1), (2, 1), (2, 1), data_format="HWC").tolist() == [
        [[3]],
        [[7]],
    ]


def test_mli_averages_follow_tensorflow() -> None:
    """ "TensorFlow and Caffe differ ... MLI follows TF": padding is not counted.

    The document says before that that it is compatible with both, which it cannot be.
    """
    x = np.array([[[10], [20], [30]]], np.int8)
    padding = mli_pad(1, 2, top=0, bottom=0, left=1, right=1)
    words: dict[str, Any] = {"data_format": "HWC"}
    tensorflow = jaxpool.avg_pool(x, (1, 2), 1, padding, count_include_pad=False, **words)
    caffe = jaxpool.avg_pool(x, (1, 2), 1, padding, count_include_pad=True, **words)
    assert tensorflow.ravel().tolist() == [10, 15, 25, 30]
    assert caffe.ravel().tolist() == [5, 15, 25, 15]


def test_mli_output_shape() -> None:
    """ "Calculated according to input tensor shape, stride, and padding parameters".

    The document prints no formula; MLI 1.1 computes ceil((H + top + bottom - kernel + 1) / stride),
    which is the floor rule.
    """
    tried = 0
    for size, kernel, stride, begin, end in SIZES:
        if kernel <= size and begin < kernel and end < kernel:
            mli = -(-(size + begin + end - kernel + 1) // stride)
            assert out(size, kernel, stride, ((begin, end),)) == mli
            tried += 1
    assert tried > 300


def test_mli_conditions() -> None:
    """Kernel at most the input, stride at least 1, printed as conditions, misplaced in the list of
    parameters that the function fills.

    MLI does not enforce the first: with padding, a kernel of 5 over 4 elements runs. jaxpool asks
    that the window fit the padded axis.
    """
    x = np.arange(1, 17, dtype=np.int8).reshape(4, 4, 1)
    assert jaxpool.max_pool(x, 5, 1, 1, data_format="HWC").ravel().tolist() == [16] * 4
    with pytest.raises(ValueError, match="does not fit"):
        jaxpool.max_pool(x, 5, 1, data_format="HWC")
    with pytest.raises(ValueError, match="`strides` contains 0"):
        jaxpool.max_pool(x, 2, 0, data_format="HWC")


# --- oneDNN: the formulas -------------------------------------------------------------------------

SRC = np.random.default_rng(1).permutation(2 * 3 * 6 * 5).reshape(2, 3, 6, 5).astype(np.float32)
KH, KW, SH, SW = 3, 2, 2, 3
PH0, PW0, PH1, PW1 = 2, 1, 1, 0  # padding_l and padding_r, different at every end
OH = (6 - KH + PH0 + PH1) // SH + 1
OW = (5 - KW + PW0 + PW1) // SW + 1


def src_taps(n: int, c: int, oh: int, ow: int) -> list[float]:
    """Return src(n, c, oh * SH + kh - ph0, ow * SW + kw - pw0) for all kh, kw inside."""
    taps = [
        (oh * SH + kh - PH0, ow * SW + kw - PW0)
        for kh, kw in itertools.product(range(KH), range(KW))
    ]
    return [float(SRC[n, c, h, w]) for h, w in taps if 0 <= h < 6 and 0 <= w < 5]


WINDOWS = list(itertools.product(range(2), range(3), range(OH), range(OW)))
ONEDNN: Any = ((KH, KW), (SH, SW), ((PH0, PH1), (PW0, PW1)))


def test_onednn_max_formula() -> None:
    """dst(n, c, oh, ow) = max over kh, kw of src(n, c, oh SH + kh - ph0, ow SW + kw - pw0)."""
    got = jaxpool.max_pool(SRC, *ONEDNN, data_format="channels_first")
    assert got.shape == (2, 3, OH, OW)
    assert [float(got[window]) for window in WINDOWS] == [max(src_taps(*w)) for w in WINDOWS]


@pytest.mark.parametrize("include", [True, False])
def test_onednn_average_formula(include: bool) -> None:
    """dst = sum / DENOM; DENOM is KH KW for avg_include_padding, else the taps inside.

    The document leaves its two algorithms blank; the sizes are those of floor rounding, so no
    window hangs over and every tap outside is declared padding.
    """
    got = jaxpool.avg_pool(SRC, *ONEDNN, count_include_pad=include, data_format="channels_first")
    taps = [src_taps(*window) for window in WINDOWS]
    want = [sum(inside) / (KH * KW if include else len(inside)) for inside in taps]
    np.testing.assert_allclose([got[window] for window in WINDOWS], want, rtol=1e-6)
    assert any(len(inside) < KH * KW for inside in taps)


def test_onednn_workspace_is_the_tap_number() -> None:
    """The document calls the workspace opaque; the implementations store kh * KW + kw in a byte."""
    values, taps = jaxpool.max_pool_with_argmax(
        SRC, *ONEDNN, index_space="window", data_format="channels_first"
    )
    assert taps.dtype == np.uint8
    for n, c, oh, ow in WINDOWS:
        kh, kw = divmod(int(taps[n, c, oh, ow]), KW)
        assert SRC[n, c, oh * SH + kh - PH0, ow * SW + kw - PW0] == values[n, c, oh, ow]


def test_onednn_backward() -> None:
    """diff_src from diff_dst, and for a maximum from the workspace: each tap gets its part."""
    diff_dst = np.random.default_rng(2).integers(-9, 10, (2, 3, OH, OW)).astype(np.float32)
    words: dict[str, Any] = {"data_format": "channels_first"}
    taps = jaxpool.max_pool_with_argmax(SRC, *ONEDNN, index_space="window", **words)[1]
    workspace = np.asarray(taps)
    maximum, average = np.zeros_like(SRC), np.zeros_like(SRC)
    for n, c, oh, ow in WINDOWS:
        for tap, (kh, kw) in enumerate(itertools.product(range(KH), range(KW))):
            h, w = oh * SH + kh - PH0, ow * SW + kw - PW0
            if 0 <= h < 6 and 0 <= w < 5:
                average[n, c, h, w] += diff_dst[n, c, oh, ow] / (KH * KW)
                if tap == workspace[n, c, oh, ow]:
                    maximum[n, c, h, w] += diff_dst[n, c, oh, ow]
    pull_max = jax.vjp(lambda x: jaxpool.max_pool(x, *ONEDNN, **words), jnp.asarray(SRC))[1]
    pull_average = jax.vjp(lambda x: jaxpool.avg_pool(x, *ONEDNN, **words), jnp.asarray(SRC))[1]
    assert np.array_equal(pull_max(diff_dst)[0], maximum)
    np.testing.assert_allclose(pull_average(diff_dst)[0], average, rtol=1e-5, atol=1e-6)


def test_onednn_generalises_to_one_and_three_axes() -> None:
    """ "Straightforward to generalize to cases of higher and lower dimensions"."""
    row = SRC[0, :1, 0]
    assert jaxpool.max_pool(row, (2,), 3, ((1, 0),), data_format="CW").tolist() == [
        [max(row[0, 0:1]), max(row[0, 2:4])]
    ]
    volume = SRC[0]
    got = jaxpool.max_pool(volume, (2, 3, 2), (1, 2, 3), 0, data_format="DHW")
    for d, h, w in itertools.product(*map(range, got.shape)):
        block = volume[d : d + 2, 2 * h : 2 * h + 3, 3 * w : 3 * w + 2]
        assert got[d, h, w] == block.max()


def test_onednn_integers_accumulate_wide() -> None:
    """ "s8, u8, s32: accumulated in s32"; the average of four 100s is 100, not a wrapped byte."""
    for dtype in (np.int8, np.uint8, np.int32):
        x = np.full((1, 1, 2, 2), 100, dtype)
        got = jaxpool.avg_pool(x, 2, 1, data_format="NCHW")
        assert got.dtype == dtype and got.ravel().tolist() == [100]
