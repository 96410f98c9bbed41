"""MLI's front end: every recorded run, and the reference build's arithmetic in Python integers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden import CASES, read
from helpers import assert_same, permutation

from jaxpool.compat import mli
from jaxpool.compat.mli import FxTensor, MliError, PoolConfig, SaTensor
from jaxpool.compat.mli.arithmetic import round_shift_32, round_shift_64

RECORDED = [name for name, case in CASES.items() if case["op"].startswith("mli_")]


def config(attrs: dict[str, Any]) -> PoolConfig:
    top, bottom, left, right = attrs["pads_top_bottom_left_right"]
    height, width = attrs["kernel"]
    down, across = attrs["strides"]
    return PoolConfig(width, height, across, down, left, right, top, bottom)


@pytest.mark.parametrize("rounding", mli.ROUNDINGS)
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_runs(name: str, rounding: str) -> None:
    case = CASES[name]
    attrs, run = case["attrs"], case["runs"][f"mli_2.0_x86_reference_round_{rounding}"]
    average = case["op"] == "mli_avg_pool"
    kernel = getattr(mli, f"{'ave' if average else 'max'}pool_hwc_{attrs['element']}")
    words: dict[str, Any] = {"rounding": rounding} if average else {}
    if attrs["requested_output"]:
        words["out_shape"] = tuple(attrs["requested_output"])
    if attrs["element"] == "sa8":
        quantised = attrs["quant_in_zp_scale_sfb_out_zp_scale_sfb"]
        x = SaTensor(read(case["x"]), *quantised[:3])
        names = ("out_zero_point", "out_scale", "out_scale_frac_bits")
        words |= dict(zip(names, quantised[3:], strict=True))
    else:
        x = FxTensor(read(case["x"]), attrs["frac_bits_in_out"][0])
        words |= {"out_frac_bits": attrs["frac_bits_in_out"][1]} if average else {}
    if run["status"] == "error":
        with pytest.raises(MliError) as error:
            kernel(x, config(attrs), **words)
        assert error.value.status == run["error"]
        return
    assert_same(kernel(x, config(attrs), **words).data, read(run["values"]), name)


# --- the arithmetic of the reference build --------------------------------------------------------


def wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def saturated(value: int, bits: int) -> int:
    return max(-(1 << (bits - 1)), min(value, (1 << (bits - 1)) - 1))


def asr_rnd(value: int, shift: int, bits: int, rounding: str) -> int:
    """Return a rounding right shift in a word of ``bits`` bits; a left shift saturates."""
    if shift < 0:
        return saturated(value << -shift, bits)
    if shift == 0:
        return value
    if shift > bits - 1:
        return 0
    if rounding == "up":
        return saturated(value + (1 << (shift - 1)), bits) >> shift
    floor, first_lost, others = value >> shift, value >> (shift - 1) & 1, (1 << (shift - 1)) - 1
    return floor + (first_lost and (floor & 1 or value & others != 0))


def reciprocal(m: int) -> tuple[int, int]:
    """Return the normalised ``2^31 / m``, as in the library for more than 31 elements."""
    value, shift = (1 << 31) // m, 0
    while value < 1 << 31:
        value, shift = value << 1, shift + 1
    return value >> 17, 14 + shift


def norm_cast(value: int, bits: int, rounding: str) -> tuple[int, int]:
    shift = 0
    while not -(1 << (bits - 1)) <= value >> shift < 1 << (bits - 1):
        shift += 1
    while shift <= 0 and -(1 << (bits - 2)) <= value << -shift < 1 << (bits - 2):
        shift -= 1
    return saturated(asr_rnd(value, shift, 32, rounding), bits), shift


def average(elements: list[int], bits: int, shift: int, rounding: str) -> int:
    mul, h = reciprocal(len(elements))
    word, total = (32, wrapped(sum(elements) * mul, 32)) if bits == 8 else (64, sum(elements) * mul)
    return saturated(asr_rnd(total, h + shift, word, rounding), bits)


def average_sa8(
    elements: list[int], source: tuple[int, int, int], target: tuple[int, int, int], rounding: str
) -> int:
    (in_zero, in_scale, in_bits), (out_zero, out_scale, out_bits) = source, target
    before = 16 - in_scale.bit_length() + out_scale.bit_length()
    scale, lost = norm_cast((in_scale << before) // out_scale, 16, rounding)
    shift = before + in_bits - out_bits - lost
    moved = saturated(asr_rnd(scale * in_zero, shift, 32, rounding), 16)
    offset = saturated(out_zero - moved, 16)
    mul, h = reciprocal(len(elements))
    mul, lost = norm_cast(scale * mul, 8, rounding)
    shift += h - lost
    start = saturated(offset << shift, 32) if shift >= 0 else offset >> -shift
    return saturated(asr_rnd(wrapped(start + sum(elements) * mul, 32), shift, 32, rounding), 8)


def windows(x: np.ndarray, cfg: PoolConfig, layout: str) -> tuple[tuple[int, ...], Any]:
    """Return the result's shape, and a function of the valid elements of each window, in order."""
    x = x if layout == "hwc" else np.moveaxis(x, 0, -1)
    height, width, channels = x.shape
    rows = -(
        -(height + cfg.padding_top + cfg.padding_bottom - cfg.kernel_height + 1)
        // cfg.stride_height
    )
    columns = -(
        -(width + cfg.padding_left + cfg.padding_right - cfg.kernel_width + 1) // cfg.stride_width
    )

    def of(row: int, column: int, channel: int) -> list[int]:
        top = row * cfg.stride_height - cfg.padding_top
        left = column * cfg.stride_width - cfg.padding_left
        part = x[
            max(top, 0) : top + cfg.kernel_height, max(left, 0) : left + cfg.kernel_width, channel
        ]
        return [int(element) for element in part.ravel()]

    return (rows, columns, channels), of


def over(x: np.ndarray, cfg: PoolConfig, layout: str, function: Any) -> np.ndarray:
    shape, of = windows(x, cfg, layout)
    y = np.array([function(of(*o)) for o in np.ndindex(shape)], x.dtype).reshape(shape)
    return y if layout == "hwc" else np.moveaxis(y, -1, 0)


CFG = PoolConfig(
    3, 4, stride_width=2, stride_height=3, padding_left=2, padding_right=1, padding_top=1,
    padding_bottom=3,
)  # fmt: skip
SHAPE = {"hwc": (7, 5, 3), "chw": (3, 7, 5)}


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_kernels_on_random_data(layout: str, bits: int, rng: np.random.Generator) -> None:
    dtype = np.dtype(f"int{bits}")
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, SHAPE[layout], endpoint=True).astype(dtype)
    tensor = FxTensor(x, bits - 1)
    largest = getattr(mli, f"maxpool_{layout}_fx{bits}")(tensor, CFG)
    assert largest.frac_bits == bits - 1
    assert_same(largest.data, over(x, CFG, layout, max), (layout, bits))
    kernel = getattr(mli, f"avepool_{layout}_fx{bits}")
    for rounding in mli.ROUNDINGS:
        got = kernel(tensor, CFG, rounding=rounding)
        want = over(x, CFG, layout, lambda elements, r=rounding: average(elements, bits, 0, r))
        assert got.frac_bits == bits - 1
        assert_same(got.data, want, (layout, bits, rounding))


@pytest.mark.parametrize("bits", [8, 16])
def test_fractional_bits_move_the_point(bits: int, rng: np.random.Generator) -> None:
    dtype = np.dtype(f"int{bits}")
    x = permutation(SHAPE["hwc"], dtype, rng)
    kernel = getattr(mli, f"avepool_hwc_fx{bits}")
    for out_frac_bits in (9, 2, -40):
        with jax.numpy_rank_promotion("raise"):
            got = kernel(FxTensor(x, 4), CFG, out_frac_bits=out_frac_bits)
        shift = 4 - out_frac_bits
        want = over(x, CFG, "hwc", lambda elements, s=shift: average(elements, bits, s, "up"))
        assert got.frac_bits == out_frac_bits
        assert_same(got.data, want, out_frac_bits)


@pytest.mark.parametrize("x64", [False, True])
def test_a_large_window_wraps_in_32_bits(x64: bool) -> None:
    """1,369 elements of 100: the product exceeds 2^31, as in the reference build."""
    x = np.full((37, 37, 1), 100, np.int8)
    with jax.enable_x64(x64):
        got = mli.avepool_hwc_fx8(FxTensor(x, 7), PoolConfig(37, 37)).data.item()
    assert got == average([100] * 1369, 8, 0, "up") != 100


@pytest.mark.parametrize("rounding", mli.ROUNDINGS)
def test_shifts_of_every_length(rounding: str, rng: np.random.Generator) -> None:
    """Thousands of products, including ties and numbers near the limits."""
    counts = rng.integers(1, 65025, 6000)
    reciprocals = np.array([reciprocal(int(m)) for m in counts])
    most = counts * rng.choice([1, 8, 2**11, 2**15 - 1, 2**15], counts.shape)
    totals = (rng.uniform(-1, 1, counts.shape) ** 3 * most).astype(np.int64)
    totals = np.where(rng.random(counts.shape) < 0.3, -most, totals)
    totals = np.where(rng.random(counts.shape) < 0.2, most // 2, totals)
    totals = np.clip(totals, -(2**15) * counts, (2**15 - 1) * counts)
    shifts = reciprocals[:, 1] + rng.integers(-40, 40, counts.shape)
    got = round_shift_64(
        jnp.asarray(totals, jnp.int32), reciprocals[:, 0].astype(np.int32), shifts, rounding
    )
    numbers = zip(totals, reciprocals[:, 0], shifts, strict=True)
    want = [asr_rnd(int(t) * int(mul), int(s), 64, rounding) for t, mul, s in numbers]
    assert_same(np.clip(got, -(2**15), 2**15 - 1), np.clip(want, -(2**15), 2**15 - 1).astype(
        np.int32), rounding)  # fmt: skip

    products = rng.integers(-(2**31), 2**31, 6000)
    products = np.where(rng.random(6000) < 0.3, 2**31 - 1 - products % 7, products)
    products = np.where(rng.random(6000) < 0.3, products & -(2**20), products)
    shifts = rng.integers(-20, 40, 6000)
    got = round_shift_32(jnp.asarray(products, jnp.int32), shifts, rounding)
    want = [asr_rnd(int(p), int(s), 32, rounding) for p, s in zip(products, shifts, strict=True)]
    assert_same(np.clip(got, -128, 127), np.clip(want, -128, 127).astype(np.int32), rounding)


@pytest.mark.parametrize("rounding", mli.ROUNDINGS)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((3, 20000, 14), (-7, 9001, 13)),
        ((-128, 17000, 20), (127, 32767, 20)),
        ((11, 1, 0), (0, 3, 2)),
        ((0, 30000, 15), (5, 16384, 20)),
    ],
)
def test_sa8_on_random_data(
    source: tuple[int, int, int], target: tuple[int, int, int], rounding: str,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    x = rng.integers(-128, 128, SHAPE["hwc"]).astype(np.int8)
    zero, scale, bits = target
    got = mli.avepool_hwc_sa8(
        SaTensor(x, *source), CFG, out_zero_point=zero, out_scale=scale, out_scale_frac_bits=bits,
        rounding=rounding,  # pyright: ignore
    )  # fmt: skip
    assert (got.zero_point, got.scale, got.scale_frac_bits) == target
    want = over(x, CFG, "hwc", lambda elements: average_sa8(elements, source, target, rounding))
    assert_same(got.data, want, (source, target))


def test_sa8_keeps_its_parameters_by_default() -> None:
    x = SaTensor(np.full((1, 3, 1), -128, np.int8), 5, 16384, 14)
    average = mli.avepool_hwc_sa8(x, PoolConfig(3, 1))
    assert average.data.item() == -127  # the multiplier has 8 bits
    largest = mli.maxpool_hwc_sa8(x, PoolConfig(3, 1))
    assert (largest.zero_point, largest.scale, largest.scale_frac_bits) == (5, 16384, 14)
    assert largest.data.item() == -128


def test_a_smaller_output_drops_the_last_windows() -> None:
    x = permutation((6, 5, 2), np.int8, np.random.default_rng(0))
    cfg = PoolConfig(2, 2, padding_left=1)
    whole = mli.avepool_hwc_fx8(FxTensor(x, 7), cfg).data
    part = mli.avepool_hwc_fx8(FxTensor(x, 7), cfg, out_shape=(3, 4)).data
    assert whole.shape == (5, 5, 2)
    assert_same(part, whole[:3, :4], "cut")


# --- values ---------------------------------------------------------------------------------------


def test_tensors_are_pytrees_of_one_array() -> None:
    x = FxTensor(jnp.arange(6, dtype=jnp.int8).reshape(1, 6, 1), 3)
    leaves, structure = jax.tree.flatten(x)
    assert [leaf.shape for leaf in leaves] == [(1, 6, 1)]
    assert jax.tree.unflatten(structure, leaves).frac_bits == 3
    pool = jax.jit(lambda x: mli.avepool_hwc_fx8(x, PoolConfig(2, 1, 2)))
    assert_same(pool(x).data.ravel(), np.array([1, 3, 5], np.int8), "under jit")
    assert len(jax.tree.leaves(SaTensor(x.data, 0, 1, 0))) == 1


def test_a_config_is_eight_bytes() -> None:
    three: Any = np.int64(3)
    assert PoolConfig(three, 2) == PoolConfig(3, 2) and hash(PoolConfig(3, 2))
    for other in (2.0, None, True):
        with pytest.raises(TypeError, match=f"^PoolConfig: `kernel_width` contains {other}, which"):
            PoolConfig(other, 2)  # pyright: ignore
    for value in (-1, 256):
        with pytest.raises(MliError, match="kernel_height is .*not a number of 8 bits"):
            PoolConfig(2, value)


GOOD = np.zeros((4, 5, 2), np.int8)


@pytest.mark.parametrize(
    ("data", "cfg", "status"),
    [
        (GOOD[0], PoolConfig(2, 2), "MLI_STATUS_SHAPE_MISMATCH"),
        (GOOD.astype(np.int16), PoolConfig(2, 2), "MLI_STATUS_TYPE_MISMATCH"),
        (GOOD[:0], PoolConfig(2, 2), "MLI_STATUS_BAD_TENSOR"),
        (GOOD, None, "MLI_STATUS_BAD_FUNC_CFG"),
        (GOOD, PoolConfig(0, 2), "MLI_STATUS_BAD_FUNC_CFG"),
        (GOOD, PoolConfig(2, 2, stride_height=0), "MLI_STATUS_BAD_FUNC_CFG"),
        (GOOD, PoolConfig(2, 2, padding_bottom=2), "MLI_STATUS_BAD_FUNC_CFG"),
        (GOOD, PoolConfig(6, 2), "MLI_STATUS_BAD_FUNC_CFG"),
    ],
)
def test_conditions(data: np.ndarray, cfg: Any, status: str) -> None:
    for kernel in (mli.maxpool_hwc_fx8, mli.avepool_hwc_fx8):
        with pytest.raises(MliError, match=f"^{status}: {kernel.__name__}: ") as error:
            kernel(FxTensor(data, 7), cfg)
        assert error.value.status == status and isinstance(error.value, ValueError)


def test_other_conditions() -> None:
    with pytest.raises(MliError) as error:
        mli.avepool_hwc_sa8(SaTensor(GOOD, 0, 0, 0), PoolConfig(2, 2))
    assert error.value.status == "MLI_STATUS_INCOMPATEBLE_TENSORS"
    with pytest.raises(ValueError, match="`rounding` = 'down' is not supported"):
        mli.avepool_hwc_fx8(FxTensor(GOOD, 7), PoolConfig(2, 2), rounding="down")  # pyright: ignore


KERNELS = [
    f"{kind}_{layout}" for kind in ("maxpool", "avepool")
    for layout in ("chw_fx8", "chw_fx16", "hwc_fx8", "hwc_fx16", "hwc_sa8")
]  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_no_tensor_has_a_status(name: str) -> None:
    kernel, cfg, sa8 = getattr(mli, name), PoolConfig(2, 2), name.endswith("sa8")
    other: Any = FxTensor(GOOD, 7) if sa8 else SaTensor(GOOD, 0, 1, 0)
    empty: Any = SaTensor(None, 0, 1, 0) if sa8 else FxTensor(None, 7)  # pyright: ignore
    for x, status in (
        (None, "BAD_TENSOR"), (GOOD, "BAD_TENSOR"), (GOOD.tolist(), "BAD_TENSOR"),
        (empty, "BAD_TENSOR"), (other, "TYPE_MISMATCH"),
    ):  # fmt: skip
        with pytest.raises(MliError, match=f"^MLI_STATUS_{status}: {name}: "):
            kernel(x, cfg)


def test_a_kernel_may_exceed_the_input_but_not_the_padded_input() -> None:
    x = FxTensor(np.arange(16, dtype=np.int8).reshape(4, 4, 1), 7)
    padded = PoolConfig(5, 5, padding_left=1, padding_bottom=2)
    assert_same(mli.maxpool_hwc_fx8(x, padded).data.ravel(), np.array([15, 15], np.int8), "max")
    with pytest.raises(MliError, match="MLI_STATUS_BAD_FUNC_CFG"):
        mli.maxpool_hwc_fx8(x, PoolConfig(5, 5, padding_left=1))


@pytest.mark.parametrize("base", ["maxpool_chw_fx8", "maxpool_chw_fx16", "avepool_chw_fx16"])
def test_names_that_fix_a_part_of_the_configuration(base: str) -> None:
    dtype = np.int16 if base.endswith("16") else np.int8
    x = FxTensor(permutation((3, 6, 7), dtype, np.random.default_rng(0)), 7)
    cfg = PoolConfig(3, 2, 1, 1)
    want = getattr(mli, base)(x, cfg).data
    for suffix in ("_generic", "_k3x2", "_k3x2_nopad", "_k3x2_krnpad", "_k3x2_str1_nopad",
                   "_k3x2_ch3_str1_nopad"):  # fmt: skip
        kernel = getattr(mli, base + suffix)
        assert kernel.__name__ == base + suffix and kernel is getattr(mli, base + suffix)
        assert_same(kernel(x, cfg).data, want, suffix)
    padded = PoolConfig(3, 2, 1, 1, padding_left=2)
    getattr(mli, f"{base}_k3x2_krnpad")(x, padded)
    for suffix, other in {
        "_k2x3": cfg, "_k3x2_ch1": cfg, "_str2": cfg, "_k3x2_nopad": padded,
    }.items():  # fmt: skip
        name = base + suffix
        with pytest.raises(MliError, match=f"^MLI_STATUS_SHAPE_MISMATCH: {name}: "):
            getattr(mli, name)(x, other)
    with pytest.raises(MliError, match=f"^MLI_STATUS_BAD_TENSOR: {base}_k3x2: "):
        getattr(mli, f"{base}_k3x2")(None, cfg)


@pytest.mark.parametrize("name", ["maxpool_hwc_sa8_k3x3", "avepool_hwc_sa8_k2x2"])
def test_sa8_kernels_of_a_fixed_window(name: str) -> None:
    base, length = name[:15], int(name[-1])
    x = SaTensor(permutation((6, 5, 2), np.int8, np.random.default_rng(0)), 3, 20000, 14)
    cfg, other = PoolConfig(length, length, 2, 1, padding_left=1), PoolConfig(length, length + 1)
    words = {"out_scale": 9001, "rounding": "convergent"} if base.startswith("ave") else {}
    got, want = getattr(mli, name)(x, cfg, **words), getattr(mli, base)(x, cfg, **words)
    assert got.scale == want.scale
    assert_same(got.data, want.data, name)
    with pytest.raises(MliError, match=f"^MLI_STATUS_SHAPE_MISMATCH: {name}: kernel_height is"):
        getattr(mli, name)(x, other, **words)


def test_other_names_do_not_exist() -> None:
    for name in ("maxpool_chw_sa8_k2x2", "minpool_chw_fx8", "maxpool_chw_fx8_k2", "_k2x2"):
        assert not hasattr(mli, name)


def unchecked(setting: Any) -> Any:
    return setting


def test_parameters_of_tensors_may_be_integers_of_numpy() -> None:
    data, cfg = np.full((3, 3, 1), 100, np.int8), PoolConfig(2, 2)
    plain = mli.avepool_hwc_sa8(SaTensor(data, 1, 300, 2), cfg, out_scale=400)
    numbers = map(unchecked, (np.int8(1), np.int16(300), np.uint8(2)))
    got = mli.avepool_hwc_sa8(SaTensor(data, *numbers), cfg, out_scale=unchecked(np.int16(400)))
    assert_same(got.data, plain.data, "sa8")
    parameters = got.zero_point, got.scale, got.scale_frac_bits
    assert parameters == (1, 400, 2) and set(map(type, parameters)) == {int}
    fixed = mli.avepool_hwc_fx8(
        FxTensor(data, unchecked(np.uint8(3))), cfg, out_frac_bits=unchecked(np.uint8(5))
    )
    plain = mli.avepool_hwc_fx8(FxTensor(data, 3), cfg, out_frac_bits=5)
    assert_same(fixed.data, plain.data, "fx8")
    assert fixed.frac_bits == 5


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: FxTensor(x, unchecked(4.5)),
            "^FxTensor: `frac_bits` contains 4.5, which is not",
        ),
        (lambda x: SaTensor(x, 0, unchecked("1"), 0), "^SaTensor: `scale` contains '1', which is"),
        (
            lambda x: mli.avepool_hwc_fx8(FxTensor(x, 3), CFG, out_frac_bits=unchecked(1.5)),
            "^avepool_hwc_fx8: `out_frac_bits` contains 1.5, which is not an integer",
        ),
        (
            lambda x: mli.avepool_hwc_sa8(SaTensor(x, 0, 1, 0), CFG, out_scale=unchecked(1.5)),
            "^avepool_hwc_sa8: `out_scale` contains 1.5, which is not an integer",
        ),
        (
            lambda x: mli.maxpool_hwc_fx8(FxTensor(x, 3), CFG, out_shape=unchecked(2)),
            "^maxpool_hwc_fx8: `out_shape` = 2 is not a sequence",
        ),
        (
            lambda x: mli.maxpool_hwc_fx8(FxTensor(x, 3), CFG, out_shape=unchecked((1, 1, 1))),
            r"^maxpool_hwc_fx8: `out_shape` = \(1, 1, 1\) has 3 entries",
        ),
    ],
)
def test_parameters_that_are_no_integers_are_named(call: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        call(np.zeros(SHAPE["hwc"], np.int8))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: FxTensor(x, 128), "frac_bits is 128, not a number of 8 bits"),
        (lambda x: FxTensor(x, -129), "frac_bits is -129, not a number of 8 bits"),
        (lambda x: SaTensor(x, 2**15, 1, 0), "zero_point is 32768, not a number of 16 bits"),
        (lambda x: SaTensor(x, 0, 2**15, 0), "scale is 32768, not a number of 16 bits"),
        (lambda x: SaTensor(x, 0, 1, 2**40), "scale_frac_bits is .*, not a number of 8 bits"),
        (
            lambda x: mli.avepool_hwc_fx8(FxTensor(x, 3), CFG, out_frac_bits=2**40),
            "^MLI_STATUS_BAD_TENSOR: avepool_hwc_fx8: out_frac_bits is .*, not a number of 8 bits",
        ),
        (
            lambda x: mli.avepool_hwc_sa8(SaTensor(x, 0, 1, 0), CFG, out_zero_point=-(2**15) - 1),
            "out_zero_point is -32769, not a number of 16 bits",
        ),
    ],
)
def test_parameters_that_the_structure_of_a_tensor_cannot_hold(call: Any, text: str) -> None:
    with pytest.raises(MliError, match=text):
        call(np.zeros(SHAPE["hwc"], np.int8))
