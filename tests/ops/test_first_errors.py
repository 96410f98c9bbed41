"""Errors of new users: settings of other libraries, missing settings and traced settings.

Each row has a call and the expected text of its error. The error has a built-in type.
"""
# pyright: reportCallIssue=false, reportArgumentType=false

import collections
import inspect
from collections.abc import Callable
from typing import Any

import haiku
import jax
import jax.numpy as jnp
import numpy as np
import peers
import pytest
from every_op import public_ops

import jaxpool
from jaxpool import compat, layers
from jaxpool._errors import misuse

peers.require("flax")

X = np.arange(2 * 8 * 8 * 3, dtype=np.float32).reshape(2, 8, 8, 3)
SERIES = np.ones((2, 8, 3), np.float32)

# The required arguments of the functions other than the array, by name.
REQUIRED: dict[str, Any] = {
    "window_shape": (2, 2),
    "strides": 2,
    "output_size": (1, 3),
    "output_shape": (8, 8),
    "boxes": np.array([[0, 1, 2, 6, 7]], np.float32),
    "reduction": jaxpool.reductions.MAX,
    "q": 0.5,
    "rank": 0,
    "key": jax.random.key(0),
    "indices": np.zeros((2, 8, 8, 3), np.int32),
    "x": X,
    "y": X,
}
OPS: dict[str, Callable[..., Any]] = {name: getattr(jaxpool, name) for name in public_ops()}


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def required(function: Callable[..., Any]) -> dict[str, Any]:
    found = parameters(function).values()
    return {p.name: REQUIRED[p.name] for p in found if p.default is p.empty}


def lines_of_error(call: Callable[[], Any], error: type[Exception] = TypeError) -> list[str]:
    """Return the three lines of the error of a call."""
    with pytest.raises(error) as caught:
        call()
    assert caught.type is error and caught.value.__cause__ is None
    lines = str(caught.value).split("\n")
    assert len(lines) == 3 and all(line.endswith(".") for line in lines), lines
    return lines


# --- words of other libraries, in every op --------------------------------------------------------

FOREIGN = sorted(
    (op, theirs, group[0])
    for op, function in OPS.items()
    for group in misuse.SYNONYMS
    for theirs in group[1:]
    if group[0] in parameters(function) and theirs not in parameters(function)
)


def test_the_table_has_the_words_of_the_libraries() -> None:
    words = {theirs for _, theirs, _ in FOREIGN}
    assert words >= {"stride", "kernel_size", "pool_size", "ksize", "dilation", "ceil_mode"}
    assert len([row for row in FOREIGN if row[1] == "stride"]) >= 15


@pytest.mark.parametrize("op", sorted(OPS))
def test_a_word_of_another_library_is_translated(op: str) -> None:
    function = OPS[op]
    rows = [(theirs, ours) for name, theirs, ours in FOREIGN if name == op]
    assert rows
    for theirs, ours in rows:
        arguments = {**required(function), theirs: REQUIRED.get(ours, 1)}
        arguments.pop(ours, None)
        what, facts, advice = lines_of_error(lambda arguments=arguments: function(**arguments))
        assert what == f"{op}: `{theirs}` is not an argument."
        assert f" {ours}," in facts or f" {ours}." in facts
        assert f"rite `{ours}` for `{theirs}`" in advice


@pytest.mark.parametrize("op", sorted(OPS))
def test_a_missing_argument_is_named(op: str) -> None:
    function = OPS[op]
    for name in required(function):
        arguments = {key: value for key, value in required(function).items() if key != name}
        what, _, advice = lines_of_error(lambda arguments=arguments: function(**arguments))
        assert what == f"{op}: `{name}` is missing."
        assert name in advice


@pytest.mark.parametrize("op", sorted(OPS))
def test_too_many_arguments_by_position(op: str) -> None:
    function = OPS[op]
    named = [p for p in parameters(function).values() if p.kind is not p.KEYWORD_ONLY]
    what, facts, _ = lines_of_error(lambda: function(*[1] * (len(named) + 1)))
    assert what == f"{op}: {len(named) + 1} arguments are given by position."
    assert facts.endswith(", ".join(p.name for p in named) + ".")


def test_entries_of_any_tuple_are_distinguished_by_type() -> None:
    pair = collections.namedtuple("pair", "height width")
    jaxpool.max_pool(X, pair(2, 2), 2)
    with pytest.raises(TypeError, match=r"`window_shape` contains 2\.0, which is not an integer"):
        jaxpool.max_pool(X, pair(2.0, 2.0), 2)


def test_the_two_ends_of_one_axis() -> None:
    pool = lambda padding: jaxpool.max_pool(X[0, :, 0, 0], 3, 1, padding, data_format="W")  # noqa: E731
    with pytest.raises(ValueError, match=r"(?s)along 1 axis.*or one pair: \(\(2, 0\),\)"):
        pool((2, 0))
    assert pool(((2, 0),)).size == pool((1,)).size
    with pytest.raises(ValueError, match="or one entry for each"):
        pool(((2, 0), (1, 1)))


@pytest.mark.parametrize(
    ("where", "name", "hint"),
    [
        (jaxpool, "max_pool2d", "one max_pool serves every rank; PyTorch's words are in"),
        (jaxpool, "blur_pool2d", ": one blur_pool serves every rank$"),
        (jaxpool, "max_plot2d", "attribute 'max_plot2d'$"),
        (compat.keras, "avg_pool", ": write average_pool; layers are in jaxpool.layers$"),
        (compat.equinox, "Pool", ": write jaxpool.pool with a Reduction$"),
        (compat.equinox, "nn", ": its names are in this module itself, such as MaxPool1d$"),
        (jaxpool, "MaxPool", "jaxpool.layers.linen"),
        (jaxpool, "nn", "jaxpool.layers.linen"),
        (jaxpool, "global_sum_pool", r"give sum_pool a window .* such as x\.shape\[1:-1\]"),
        (jaxpool, "global_average_pool", ": write global_avg_pool$"),
        (jaxpool, "mean_pool", ": write avg_pool$"),
        (jaxpool, "median_filter", "in jaxpool.filters$"),
        (jaxpool, "pool_shards", "write jaxpool.sharding.pool_shards$"),
        (jaxpool, "segment_pool", "write jax.ops.segment_max or segment_sum; a mean is a quotient"),
        (jaxpool, "segment_max_pool", "write jax.ops.segment_max or segment_sum"),
        (jaxpool, "segment_mean", "write jax.ops.segment_max or segment_sum"),
        (jaxpool, "nanmedian_pool", r": write median_pool\(..., where=~jnp.isnan\(x\)\)$"),
        (jaxpool, "nan_mean_pool", r": write avg_pool\(..., where=~jnp.isnan\(x\)\)$"),
        (jaxpool, "rolling_median", ": write median_pool at stride 1$"),
        (jaxpool, "moving_average", ": write avg_pool at stride 1$"),
        (jaxpool, "rolling_rank_of", "attribute 'rolling_rank_of'$"),
        (jaxpool.layers, "MaxPool", "equinox, haiku, linen, nnx"),
        (layers.linen, "GlobalAveragePooling2D", ": write GlobalAvgPool, which serves every rank$"),
        (layers.linen, "AdaptiveAvgPool2d", ": write AdaptiveAvgPool, which"),
        (layers.haiku, "GlobalLogSumExpPool", "no layer; call jaxpool.global_logsumexp_pool$"),
        (layers.haiku, "GlobalMedianPool", "give jaxpool.median_pool a window of the full axes$"),
        (layers.linen, "MaxPol", "attribute 'MaxPol'$"),
        (compat.torch, "max_pool2d_with_indices", r"write max_pool2d\(..., return_indices=True\)$"),
        (compat.torch, "LPPool2d", ": write lp_pool2d; layers are in jaxpool.layers$"),
        (compat.torch, "roi_align", ": write jaxpool.roi_align$"),
        (compat.torch, "relu", "attribute 'relu'$"),
        (compat.keras, "AveragePooling2D", ": write average_pool; layers"),
        (compat.keras, "GlobalAveragePooling2D", "such as jaxpool.global_avg_pool$"),
        (compat.keras, "ops", ": its names are in this module itself, such as max_pool$"),
        (compat.tensorflow, "nn", ": its names are in this module itself, such as max_pool$"),
        (compat.torch, "interpolate", ": jax.image.resize resizes arrays$"),
        (compat.flax, "MaxPool", ": write max_pool; layers"),
        (compat.onnx, "GlobalAveragePool", ": write global_average_pool; layers"),
        (compat.openvino, "MaxPool", ": write max_pool_v14; layers"),
        (compat.onednn, "forward", "forward_inference, forward_training, reorder$"),
        (compat.mli, "mli_krn_maxpool_hwc_fx8", ": write maxpool_hwc_fx8$"),
        (compat.haiku, "AvgPool", ": write avg_pool; layers are in jaxpool.layers$"),
        (compat.tensorflow, "MaxPool2D", ": write max_pool2d; layers"),
        (jaxpool.compat, "pytorch", "tensorflow, torch"),
    ],
)
def test_a_name_that_is_elsewhere(where: Any, name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=hint) as caught:
        getattr(where, name)
    assert caught.value.name == name and caught.value.obj is where


@pytest.mark.parametrize("library", layers.__all__)
def test_every_op_has_a_layer_or_advice(library: str) -> None:
    module = getattr(layers, library)
    for op in OPS:
        name = "".join(word.capitalize() for word in op.split("_"))
        with pytest.raises(AttributeError, match=rf"(write \w+, which|call jaxpool\.{op}$)"):
            getattr(module, f"{name}2d")


@pytest.mark.parametrize("op", sorted(OPS))
def test_an_argument_that_is_given_twice(op: str) -> None:
    first = next(iter(parameters(OPS[op])))
    what, *_ = lines_of_error(lambda: OPS[op](X, **required(OPS[op])))
    assert what == f"{op}: `{first}` is given twice, by position and by name."


@pytest.mark.parametrize("op", sorted(OPS))
def test_a_word_that_nobody_knows(op: str) -> None:
    what, _, advice = lines_of_error(lambda: OPS[op](**required(OPS[op]), zebra=1))
    assert what == f"{op}: `zebra` is not an argument."
    assert advice == "  Leave out `zebra`."


# --- words that need more than a new name ---------------------------------------------------------

POOL = jaxpool.max_pool
REDUCTION: Any = jaxpool.Reduction
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "two words at once": (
        lambda: POOL(X, kernel_size=2, stride=2),
        "Write `window_shape` for `kernel_size`; write `strides` for `stride`.",
    ),
    "no window, no strides": (lambda: POOL(X), "`window_shape` and `strides` are missing"),
    "ceil_mode": (
        lambda: POOL(X, (2, 2), 2, ceil_mode=True),
        'ceil_mode=True is rounding="ceil_torch"',
    ),
    "return_indices": (
        lambda: POOL(X, (2, 2), 2, return_indices=True),
        "jaxpool.max_pool_with_argmax returns indices",
    ),
    "footprint": (
        lambda: POOL(X, strides=1, footprint=np.ones((2, 2))),
        "only jaxpool.filters accepts footprints",
    ),
    "count_include_pad of a maximum": (
        lambda: POOL(X, (2, 2), 2, count_include_pad=False),
        "only jaxpool.avg_pool can count padding",
    ),
    "exclude_pad": (
        lambda: jaxpool.avg_pool(X, (2, 2), 2, exclude_pad=True),
        "exclude_pad=True is count_include_pad=False",
    ),
    "TensorFlow's index space": (
        lambda: jaxpool.max_pool_with_argmax(X, (2, 2), 2, include_batch_in_index=True),
        "index_space=0 counts the batch",
    ),
    "the pooled axes of an adaptive pool": (
        lambda: jaxpool.adaptive_avg_pool(X, (1, 1), keepdims=False),
        "Leave out `keepdims`: only global pools can remove the pooled axes.",
    ),
    "a centred window of pandas": (
        lambda: jaxpool.median_pool(X, (3, 3), 1, center=True),
        'Leave out `center`: padding="SAME" centres the windows.',
    ),
    "a quantile of pandas": (
        lambda: jaxpool.quantile_pool(X, 0.5, (3, 3), 1, interpolation="lower"),
        "Write `method` for `interpolation`.",
    ),
    "an output of SciPy": (
        lambda: jaxpool.filters.maximum_filter(X[0, ..., 0], 3, output=np.float32),
        "Leave out `output`: the result is returned; convert it with astype.",
    ),
    "several quantiles": (
        lambda: jaxpool.quantile_pool(X, (0.1, 0.5), (3, 3), 1),
        "such as 0.5 for the median; for several, jnp.stack([jaxpool.quantile_pool(x, q, ...) for "
        "q in qs], -1).",
    ),
    "missing values of pandas": (
        lambda: jaxpool.median_pool(X, (3, 3), 1, skipna=True),
        "Write `where` for `skipna`: skipna=True is where=~jnp.isnan(x).",
    ),
    "a mask of boxes": (
        lambda: jaxpool.roi_align(X, np.zeros((2, 5)), 2, where=np.ones(2, bool)),
        "Leave out `where`: jaxpool.max_pool and similar pools accept where; in pools of regions, "
        "image index -1 pads an array of boxes.",
    ),
    "a temperature of a weighted average": (
        lambda: jaxpool.soft_pool(X, (2, 2), 2, temperature=2.0),
        "soft_pool(x / T, ...) * T has weights exp(x / T).",
    ),
    "an inverse temperature of a weighted average": (
        lambda: jaxpool.soft_pool(X, (2, 2), 2, beta=0.5),
        "Leave out `beta`: soft_pool(beta * x, ...) / beta has weights exp(beta * x).",
    ),
    "the width of a Gaussian": (
        lambda: jaxpool.blur_pool(X, (3, 3), 1, sigma=0.7),
        "binomial; n taps have a standard deviation of sqrt(n - 1) / 2.",
    ),
    "axes of a global pool": (
        lambda: jaxpool.global_avg_pool(X, axis=(1, 2)),
        "Write `data_format` for `axis`: channels are last",
    ),
    "lengths of sequences": (
        lambda: jaxpool.global_avg_pool(X, lengths=[3, 8]),
        "Leave out `lengths`: where=jnp.arange(n)[:, None] < lengths[:, None, None] leaves out",
    ),
    "an inverse temperature": (
        lambda: jaxpool.global_logsumexp_pool(X, beta=3),
        "Write `temperature` for `beta`: the temperature is 1 / beta.",
    ),
    "an unpooling without a shape": (
        lambda: jaxpool.max_unpool(X, X.astype(int)),
        "Give for example output_shape=(8, 8), the lengths of the pooled axes before the pooling.",
    ),
    "a layout where it is fixed": (
        lambda: compat.torch.max_pool2d(X, 2, data_format="channels_last"),
        "the layout is fixed; pools of jaxpool itself, such as jaxpool.max_pool, accept",
    ),
    "a layout beside OpenVINO's axis": (
        lambda: compat.openvino.max_pool_v14(X, 2, 1, 0, 0, 2, data_format="NHWC"),
        "Leave out `data_format`",
    ),
    "a dilated average of PyTorch": (
        lambda: compat.torch.avg_pool2d(X, 2, dilation=2),
        "Leave out `dilation`: sliding pools of jaxpool itself, such as jaxpool.max_pool, accept",
    ),
    "the rounding of a pool that drops the rest": (
        lambda: compat.flax.max_pool(X, (2, 2), ceil_mode=True),
        'Leave out `ceil_mode`: sliding pools of jaxpool itself, such as jaxpool.max_pool, accept',
    ),
    "one word for both sides": (
        lambda: compat.mli.PoolConfig(kernel_size=2, stride=3),
        "Write `kernel_width` for `kernel_size`: kernel_height is that of the other axis; write "
        "`stride_width` for `stride`: stride_height is that of the other axis.",
    ),
    "one word for both ends": (
        lambda: compat.onednn.forward_inference(X, "max", (2, 2), (2, 2), padding=1),
        "Write `padding_l` for `padding`: padding_r pads the high ends.",
    ),
    "one word for both ends of OpenVINO": (
        lambda: compat.openvino.max_pool_v1(X, (2, 2), padding=1),
        "Write `pads_begin` for `padding`: pads_end pads the high ends",
    ),
    "a name as padding of PyTorch": (
        lambda: compat.torch.max_pool2d(X, 2, padding="same"),
        'Give integers; ops of jaxpool itself also accept names, such as "SAME".',
    ),
    "pairs as padding of PyTorch": (
        lambda: compat.torch.max_pool2d(X, 3, 2, ((1, 0), (0, 1))),
        "Give integers; ops of jaxpool itself also accept (low, high) pairs.",
    ),
    "a name as padding of Equinox": (
        lambda: compat.equinox.MaxPool2d(2, padding="SAME"),
        "MaxPool2d: `padding` = 'SAME' does not consist of integers.",
    ),
    "a name as pads of ONNX": (
        lambda: compat.onnx.max_pool(X, (2, 2), pads="SAME_UPPER"),
        "Give 4 integers, or the name as `auto_pad`.",
    ),
    "an int as window of a sequence": (lambda: POOL(SERIES, 2, 2), 'for one axis (2,), or "NWC".'),
    "an int as size of a sequence": (
        lambda: jaxpool.adaptive_avg_pool(SERIES, 1),
        'for one axis (7,), or "NWC".',
    ),
    "weights of a global pool": (
        lambda: jaxpool.global_avg_pool(X, weights=X),
        "Leave out `weights`: only jaxpool.avg_pool accepts weights.",
    ),
    "window of a global pool": (
        lambda: jaxpool.global_avg_pool(X, window_shape=(8, 8)),
        "Leave out `window_shape`: its windows are entire axes, or follow from the size",
    ),
    "a slip of the pen": (lambda: POOL(X, (2, 2), stides=2), "Write `strides` for `stides`"),
    "both words": (lambda: POOL(X, (2, 2), strides=2, stride=2), "Leave out `stride`."),
    "a window by itself": (lambda: jaxpool.Window((2, 2)), "Window: `strides` is missing"),
    "a class of a front end": (
        lambda: compat.equinox.MaxPool2d(2, strides=2),
        "Write `stride` for `strides`.",
    ),
    "a class without its argument": (
        lambda: compat.equinox.AdaptiveAvgPool2d(),
        "AdaptiveAvgPool2d: `target_shape` is missing",
    ),
    "a tensor": (
        lambda: compat.mli.FxTensor(X),
        "FxTensor: `frac_bits` is missing",
    ),
    "a configuration": (
        lambda: compat.mli.PoolConfig(2, 2, stride_widht=2),
        "Write `stride_width` for `stride_widht`.",
    ),
    "a reduction without an identity": (
        lambda: REDUCTION("sum", jnp.add),
        "Give for example identity=0 for a sum, -jnp.inf for a maximum.",
    ),
    "a reduction in words of lax": (
        lambda: REDUCTION("sum", jnp.add, init_value=0),
        "Write `identity` for `init_value`.",
    ),
    "geometry": (
        lambda: jaxpool.geometry((8, 8), (2, 2), stride=2),
        "Write `strides` for `stride`.",
    ),
    "explain": (lambda: jaxpool.explain(X, kernel_size=2, strides=1), "Write `window_shape`"),
    "a front end has its own words": (
        lambda: compat.torch.max_pool2d(X, window_shape=2, strides=2),
        "Write `kernel_size` for `window_shape`; write `stride` for `strides`.",
    ),
    "Flax's words": (
        lambda: compat.flax.max_pool(X, kernel_size=(2, 2)),
        "Write `window_shape` for `kernel_size`.",
    ),
    "a filter": (
        lambda: jaxpool.filters.maximum_filter(X[0, ..., 0], kernel_size=3),
        "Write `size` for `kernel_size`.",
    ),
    "values without an array": (
        lambda: POOL(jax.ShapeDtypeStruct(X.shape, X.dtype), (2, 2), 2),
        "jax.eval_shape",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_error_says_what_to_write(name: str) -> None:
    call, needle = CALLS[name]
    assert needle in "\n".join(lines_of_error(call))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: compat.onnx.max_pool(x, (2, 3)),
        lambda x: compat.openvino.avg_pool_v14(x, (1, 1), (0, 0), (0, 0), (2, 3), True),
    ],
)
def test_a_missing_batch_axis_is_named(call: Callable[[Any], Any]) -> None:
    facts = lines_of_error(lambda: call(X[0]), ValueError)[1]
    assert facts == "  1 axis is pooled, after those of batch and channels."


def test_the_error_of_mli_says_what_a_tensor_should_be() -> None:
    tensor, config = (
        compat.mli.FxTensor(np.zeros((4, 4, 1), np.int16), 7),
        compat.mli.PoolConfig(2, 2),
    )
    with pytest.raises(compat.mli.MliError, match="elements are int16, not int8$"):
        compat.mli.maxpool_hwc_fx8(tensor, config)
    with pytest.raises(compat.mli.MliError, match="x is of type FxTensor, not SaTensor$"):
        compat.mli.maxpool_hwc_sa8(tensor, config)


def test_an_error_of_jax_is_quoted_without_a_second_stop() -> None:
    facts = lines_of_error(lambda: POOL(np.zeros((2, 4, 4, 3), object), (2, 2), 2))[1]
    assert not facts.endswith((". .", ".."))


def test_one_axis_of_keras_is_counted_in_the_singular() -> None:
    facts = lines_of_error(lambda: compat.keras.max_pool(X[0], (2, 2)), ValueError)[1]
    assert facts == "  Besides batch and channels they have 1 axis."


def test_a_layout_that_tensorflow_does_not_name() -> None:
    pool = lambda: compat.tensorflow.max_pool(X, 2, 2, "SAME", data_format="channels_last")  # noqa: E731
    assert lines_of_error(pool, ValueError)[2] == "  Give 'NHWC' or 'NCHW'."


@pytest.mark.parametrize("layout", ["NCL", "NCT", "BCW"])
def test_the_letter_of_a_sequence_is_shown(layout: str) -> None:
    advice = lines_of_error(lambda: POOL(SERIES, 2, 2, data_format=layout), ValueError)[2]
    assert 'for sequences "NWC" or "NCW".' in advice


def test_eval_shape_is_indeed_the_way() -> None:
    found = jax.eval_shape(lambda x: POOL(x, (2, 2), 2), jax.ShapeDtypeStruct(X.shape, X.dtype))
    assert found.shape == (2, 4, 4, 3)


# --- entries for batch and channels ---------------------------------------------------------------

ENTRIES: dict[str, tuple[dict[str, Any], str]] = {
    "window and strides of TensorFlow": (
        {"window_shape": (1, 2, 2, 1), "strides": (1, 2, 2, 1)},
        "(2, 2)",
    ),
    "in a list": ({"window_shape": [1, 3, 2, 1], "strides": 1}, "(3, 2)"),
    "channels first": (
        {"window_shape": (1, 1, 3, 2), "strides": 1, "data_format": "channels_first"},
        "(3, 2)",
    ),
    "letters": ({"window_shape": (1, 3, 2, 1), "strides": 1, "data_format": "NHWC"}, "(3, 2)"),
    "strides alone": ({"window_shape": (3, 2), "strides": (1, 2, 1, 1)}, "(2, 1)"),
    "pads": (
        {"window_shape": (3, 2), "strides": 1, "padding": ((0, 0), (1, 1), (1, 0), (0, 0))},
        "((1, 1), (1, 0))",
    ),
}


@pytest.mark.parametrize("op", ["max_pool", "avg_pool", "lp_pool", "median_pool", "windows"])
@pytest.mark.parametrize("name", ENTRIES)
def test_entries_for_batch_and_channels_are_recognised(name: str, op: str) -> None:
    settings, pooled = ENTRIES[name]
    advice = lines_of_error(lambda: OPS[op](X, **settings), ValueError)[2]
    assert f"If some are for batch and channels, leave them out: {pooled}." in advice


def test_an_example_without_a_batch() -> None:
    advice = lines_of_error(lambda: POOL(X[0], (2, 2, 1), (2, 2, 1)), ValueError)[2]
    assert "leave them out: (2, 2)." in advice


def test_other_lengths_get_no_such_advice() -> None:
    for window in ((2, 3, 4, 5), (2, 1, 1, 3)):
        assert (
            "batch" not in lines_of_error(lambda window=window: POOL(X, window, 1), ValueError)[2]
        )


# --- masks ----------------------------------------------------------------------------------------

MASKED = sorted(op for op in OPS if "where" in parameters(OPS[op]))


@pytest.mark.parametrize("op", MASKED)
def test_a_mask_without_channels_gets_them(op: str) -> None:
    arguments = required(OPS[op])
    mask = np.ones((2, 8), bool)
    length = {"window_shape": (2,), "output_size": (2,), "x": SERIES}
    arguments |= {name: value for name, value in length.items() if name in arguments}
    advice = lines_of_error(lambda: OPS[op](**arguments, where=mask), ValueError)[2]
    assert "give mask[..., None]." in advice
    jax.eval_shape(lambda: OPS[op](**arguments, where=mask[..., None]))


def test_a_mask_with_channels_elsewhere() -> None:
    first = X.transpose(0, 3, 1, 2)
    layout: dict[str, Any] = {"data_format": "channels_first", "window_shape": (2, 2)}
    mask = np.ones((2, 8, 8), bool)
    advice = lines_of_error(lambda: POOL(first, strides=2, **layout, where=mask), ValueError)[2]
    assert "give mask[:, None]." in advice
    POOL(first, strides=2, **layout, where=mask[:, None])


def test_a_mask_that_fits_nowhere_gets_no_such_advice() -> None:
    advice = lines_of_error(lambda: POOL(X, (2, 2), 2, where=np.ones((5, 7), bool)), ValueError)[2]
    assert "None" not in advice


# --- traced settings ------------------------------------------------------------------------------

ARRAYS = {"x", "y", "boxes", "batch_index", "indices", "key", "samples", "where", "weights",
          "temperature", "index_dtype"}  # fmt: skip
"""What may be traced, and a dtype, which is that of the traced array."""

TRACED = sorted(
    (op, name)
    for op, function in OPS.items()
    for name in parameters(function)
    if name not in ARRAYS and (op, name) != ("gem_pool", "p")
)


@pytest.mark.parametrize(("op", "name"), TRACED)
def test_a_traced_setting_says_how_to_keep_it_static(op: str, name: str) -> None:
    value = {"window_shape": (2, 2), "output_size": (2, 2), "output_shape": (8, 8)}.get(name, 1)
    arguments = {key: v for key, v in required(OPS[op]).items() if key != name}
    if op == "max_unpool" and name not in ("output_shape", "index_space", "data_format"):
        arguments |= {"index_space": "window", "window_shape": (2, 2), "strides": 2}
        arguments.pop(name, None)
    call = jax.jit(lambda value: OPS[op](**arguments, **{name: value}))
    with pytest.raises((TypeError, ValueError)) as caught:
        call(value)
    what, _, advice = str(caught.value).split("\n")
    assert what.startswith(f"{op}: ") and f"`{name}`" in what
    assert "close over them" in advice and f"name `{name}` in the static_argnames" in advice


def test_jit_of_an_op_itself() -> None:
    advice = lines_of_error(lambda: jax.jit(POOL)(X, (2, 2), 2))[2]
    assert "`window_shape` in the static_argnames or static_argnums" in advice
    static = jax.jit(POOL, static_argnums=(1, 2))(X, (2, 2), 2)
    assert static.shape == jax.jit(lambda x: POOL(x, (2, 2), 2))(X).shape == (2, 4, 4, 3)


def test_a_traced_setting_of_a_front_end_bears_its_name() -> None:
    call = jax.jit(lambda n: compat.torch.max_pool2d(jnp.asarray(X), n))
    advice = lines_of_error(lambda: call(2))[2]
    assert "name `kernel_size` in the static_argnames" in advice


def test_a_list_that_holds_itself_is_not_searched_for_ever() -> None:
    endless: list[Any] = [2]
    endless.append(endless)
    assert "`window_shape` contains [2, [...]]" in lines_of_error(lambda: POOL(X, endless, 1))[0]
    assert "4 entries" in lines_of_error(lambda: POOL(X, (2, 2), [1, 1, endless, 1]), ValueError)[0]


def test_arrays_may_be_traced_and_get_no_such_advice() -> None:
    call = jax.jit(lambda mask: POOL(X, (2, 2), 2, where=mask))
    assert "static" not in lines_of_error(lambda: call(np.ones((2, 8, 8, 1), np.float32)))[2]


# --- layers ---------------------------------------------------------------------------------------

LIBRARIES = ("linen", "nnx", "equinox", "haiku")


def made(library: str, layer: str, *args: Any, **words: Any) -> Any:
    make = lambda: getattr(getattr(layers, library), layer)(*args, **words)  # noqa: E731
    if library == "haiku":
        return haiku.testing.transform_and_run(lambda: make().__class__)()
    return make()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("layer", ["MaxPool", "AvgPool", "LpPool", "GeMPool", "MinPool"])
def test_layers_name_our_words(library: str, layer: str) -> None:
    what, facts, advice = lines_of_error(lambda: made(library, layer, kernel_size=(2, 2), stride=2))
    assert what == f"{layer}: `kernel_size` and `stride` are not arguments."
    assert "window_shape, strides, padding" in facts
    assert advice == "  Write `window_shape` for `kernel_size`; write `strides` for `stride`."
    assert (
        lines_of_error(lambda: made(library, layer, (2, 2)))[0] == f"{layer}: `strides` is missing."
    )
    assert made(library, layer, (2, 2), 2)


@pytest.mark.parametrize("library", ["linen", "nnx", "equinox"])
def test_layers_without_arguments_by_position(library: str) -> None:
    for layer, word in (("MaxUnpool", "window_shape"), ("GlobalAvgPool", "keepdims")):
        _, facts, advice = lines_of_error(lambda layer=layer: made(library, layer, (2, 2)))
        assert facts == "  It accepts no positional arguments."
        assert advice.startswith("  Give them by name: ") and word in advice


@pytest.mark.parametrize("library", LIBRARIES)
def test_adaptive_layers_name_our_words(library: str) -> None:
    advice = lines_of_error(lambda: made(library, "AdaptiveAvgPool", target_shape=(2, 2)))[2]
    assert advice == "  Write `output_size` for `target_shape`."


# --- errors that stay unchanged -------------------------------------------------------------------


def test_errors_of_the_callers_own_code_are_not_touched() -> None:
    def broken(x: Any, y: Any) -> Any:
        raise TypeError("mine")

    reduction = jaxpool.Reduction("broken", broken, 0.0)
    with pytest.raises(TypeError, match="^mine"):
        jaxpool.pool(X, reduction, (2, 2), 2)


def test_signatures_are_those_of_the_functions() -> None:
    assert list(parameters(POOL))[:4] == ["x", "window_shape", "strides", "padding"]
    assert list(parameters(layers.linen.MaxPool))[:3] == ["window_shape", "strides", "padding"]
