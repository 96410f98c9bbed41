"""Reports on a pooling before it runs, against counts over windows."""

import io
import itertools
import re
import sys
import time
import types
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool import Window, explain, receptive_field
from jaxpool.__main__ import main
from jaxpool._explain.axes import unread_elements
from jaxpool._lowerings.parts import collapsed
from jaxpool._numerics import divisors
from jaxpool.testing import NAMED_CASES

SETTINGS: dict[str, Any] = dict(padding=((1, 0), (2, 1)), dilations=(2, 1), rounding="ceil")


def example(**words):
    return explain((2, 9, 13, 3), (3, 4), (2, 5), **{**SETTINGS, **words})


def test_the_text_holds_the_whole_story():
    text = str(example(op="avg_pool", count_include_pad=False))
    for line in (
        "avg_pool  window (3, 4), strides (2, 5), padding ((1, 0), (2, 1)), dilations (2, 1), "
        "rounding ceil",
        "output         (2, 4, 4, 3), from float32 (2, 9, 13, 3)",
        "axis 1         9 elements, padding (1, 0), overhang 1: 4 windows over 5 elements each",
        "reads 0: elements 1 to 3 by 2; 1: elements 1 to 5 by 2; 2: elements 3 to 7 by 2; "
        "3: elements 5 to 7 by 2",
        "never read: 0, 2, 4, 6, 8",
        "2: elements 8 to 11; 3: no element",
        "divisors       (2, 3 x 2, 2) x (2, 4 x 2, 0)",
        "work           1,056 operations, each window separately; 3,192 bytes",
        "reduce         slices on cpu, reduce_window on gpu and tpu",
        "not padded_slices on cpu: windows do not start at every element",
        "sum_transpose  axis_by_axis",
        "padding = ((0, 0), (1, 1), (2, 4), (0, 0))",
    ):
        assert line in text
    assert max(map(len, text.splitlines())) < 130


def test_the_text_says_which_axes_are_computed_otherwise(monkeypatch):
    """As the programs of ``test_collapsed`` and ``test_platforms`` do."""
    monkeypatch.setattr(collapsed, "BARRIER_HOLDS", True)
    channels = "on cpu, the 3 elements after the last pooled axis are collapsed with it"
    rows = "on tpu, shifted arrays are added along the last pooled axis, before the others"
    for shape, op, line, operations in (
        ((2, 13, 14, 3), "max_pool", channels, {"reduce", "argreduce"}),
        ((2, 13, 14, 16), "max_pool", channels, set()),
        ((12, 56, 56, 128), "avg_pool", rows, {"reduce", "sum_transpose"}),
        ((32, 28, 28, 192), "avg_pool", rows, set()),
    ):
        choices = explain(shape, (3, 3), 1, "SAME", op=op).plan.choices
        assert {c.operation for c in choices if line in c.lines(shape)} == operations
        text = str(explain(shape, (3, 3), 1, "SAME", op=op))
        assert text.count(line) == len(operations)


@pytest.mark.parametrize("case", NAMED_CASES, ids=lambda case: case.name)
def test_named_cases_are_explained(case):
    words = {k: v for k, v in case.settings.items()}
    found = explain(case.shape, **words, op=case.op, dtype="bfloat16")
    shape_words = {k: v for k, v in words.items() if k != "count_include_pad"}
    assert found.output_shape == jaxpool.output_shape(case.shape, **shape_words)
    elements = np.prod(case.shape) + np.prod(found.output_shape)
    assert found.bytes == 2 * elements
    assert str(found).count("\n") >= 8


def test_bytes_are_those_of_the_results():
    """Sums of int8 are int32, and indices are int32 in addition to their values."""
    results = (
        ("max_pool", 1),
        ("sum_pool", 4),
        *((f"{m}_pool_with_arg{m}", 5) for m in ("max", "min")),
    )
    for op, of_result in results:
        found = explain((8, 8, 1), (2, 2), 2, op=op, dtype="int8")
        assert found.bytes == 64 + of_result * 16


@pytest.mark.parametrize(
    ("dtype", "summed"), [("bfloat16", "float32"), ("float16", "float32"), ("int8", "int32")]
)
@pytest.mark.parametrize("op", ["sum_pool", "avg_pool"])
def test_sums_are_planned_in_the_dtype_that_is_added(
    op: str, dtype: str, summed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, plan_for = [], divisors.plan_for

    def recording(*arguments: Any) -> Any:
        run.append((arguments[2], plan_for(*arguments)))
        return run[-1][1]

    monkeypatch.setattr(divisors, "plan_for", recording)
    with jax.disable_jit():
        getattr(jaxpool, op)(jnp.ones((1, 8, 9, 1), dtype), (3, 3), 1)
    explained = explain((1, 8, 9, 1), (3, 3), 1, op=op, dtype=dtype)
    assert (summed, explained.plan) == run[-1]
    assert explained.dtype == dtype


@pytest.mark.parametrize(("op", "dtype"), [("max_pool", "complex64"), ("avg_pool", "bool")])
def test_what_the_op_refuses_is_not_explained(op, dtype):
    x = jnp.zeros((2, 9, 9, 3), dtype)
    with pytest.raises(TypeError) as refused:
        getattr(jaxpool, op)(x, (3, 3), 1)
    with pytest.raises(TypeError) as caught:
        explain(x, (3, 3), 1, op=op)
    assert str(caught.value).replace("explain", op) == str(refused.value)


def test_an_array_brings_its_shape_and_dtype():
    of_array = explain(jnp.zeros((5, 1), jnp.int8), (2,), 1)
    assert of_array == explain((5, 1), (2,), 1, dtype=np.int8)
    assert of_array.dtype == np.int8


def test_divisors_are_those_of_the_op():
    x = jnp.zeros((1, 9, 13, 1))
    for include in (True, False):
        rows, columns = example(op="avg_pool", count_include_pad=include).divisors
        words = dict(SETTINGS, count_include_pad=include)
        ones = jaxpool.sum_pool(x + 1, (3, 4), (2, 5), **SETTINGS)
        mean = jaxpool.avg_pool(x + 1, (3, 4), (2, 5), **words)
        divisors = np.maximum(np.outer(rows, columns), 1)[..., None]
        np.testing.assert_allclose(mean, np.asarray(ones) / divisors, rtol=1e-6)


def test_unread_elements_by_brute_force():
    choices = itertools.product((7, 10), (1, 2, 3), (1, 2, 5), (1, 3), (0, 2))
    for size, kernel, stride, dilation, pad in choices:
        if (kernel - 1) * dilation < size:
            axis = jaxpool.geometry(size, kernel, stride, pad, dilations=dilation).axes[0]
            read = {o * stride - pad + t * dilation for o in range(axis.out) for t in range(kernel)}
            assert unread_elements(axis).tolist() == [q for q in range(size) if q not in read]


def test_a_dtype_of_another_library_is_refused():
    array = types.SimpleNamespace(shape=(1, 4, 4, 1), dtype="torch.float32")
    with pytest.raises(TypeError, match=r"`x_or_shape`\.dtype = 'torch\.float32' is not a dtype"):
        explain(array, 2, 2)


def test_a_symbolic_shape_is_refused():
    batch = jax.export.symbolic_shape("b, 4, 4, 1")
    with pytest.raises(ValueError, match=r"explain: `x_or_shape` has the symbolic shape \(b, 4, 4"):
        explain(jax.ShapeDtypeStruct(batch, np.float32), 2, 2)


@pytest.mark.parametrize(
    "words, message",
    [
        ({"op": "mean_pool"}, r"explain: `op` = 'mean_pool' is not an op that explain describes"),
        ({"rounding": "up"}, r"explain: `rounding` = 'up' is not a rounding"),
        (
            {"implementation": "fast"},
            r"explain: `implementation` = 'fast' is not an implementation",
        ),
        ({"dilations": 9}, r"explain: `window_shape` = 3 does not fit pooled axis 0"),
    ],
)
def test_bad_settings_are_errors(words, message):
    with pytest.raises(ValueError, match=message):
        example(**words)


def test_a_number_is_no_shape():
    with pytest.raises(TypeError, match="`x_or_shape` = 5 is neither an array nor a shape"):
        explain(5, (2,), 1)


# --- receptive fields -----------------------------------------------------------------------------


def test_receptive_field_by_brute_force():
    """Return the receptive field, from the last layer to the first."""
    layers = [Window((3, 2), (2, 1), 1, (1, 2)), Window((2, 3), (1, 2), "SAME")]
    layers.append(Window((2, 2), (3, 1), ((1, 0), (0, 1))))
    sizes: list[tuple[int, ...]] = [(19, 17)]
    for layer in layers:
        words = (layer.kernel, layer.strides, layer.padding)
        made = jaxpool.geometry(sizes[-1], *words, dilations=layer.dilations)
        sizes.append(made.out_shape)
    found = receptive_field(sizes[0], layers)
    for index in range(2):
        fields = []
        for output in range(2):
            elements = {output}
            for layer, size in zip(layers[::-1], sizes[-2::-1], strict=True):
                words = (layer.kernel, layer.strides, layer.padding)
                axis = jaxpool.geometry(size, *words, dilations=layer.dilations).axes[index]
                elements = {
                    axis.start(o) + t * axis.dilation for o in elements for t in range(axis.kernel)
                }
            fields.append((min(elements), max(elements)))
        (first, last), (next_first, _) = fields
        assert found.start[index] == first
        assert found.size[index] == last - first + 1
        assert found.stride[index] == next_first - first


def test_receptive_field_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="`layers` is empty"):
        receptive_field(7, [])


# --- pictures and the command line ----------------------------------------------------------------


def test_the_picture_is_written(tmp_path: Path):
    path = tmp_path / "picture.svg"
    figure = example().plot(path, window=(1, 2))
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        "axis 1: 9 elements, 4 windows",
        "axis 2: 13 elements, 4 windows",
    ]
    dots = [len(panel.lines) for panel in figure.axes]
    assert dots == [4 * 3, 4 * 4]
    assert path.read_text().count("<path") > 20


def test_the_picture_is_written_to_an_open_file():
    file = io.BytesIO()
    example().plot(file)
    assert file.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize("dilation", [1, 700])
def test_the_picture_of_a_long_window_is_cut(dilation: int):
    window = 8001 // dilation
    found = explain((1, 9000, 1), (window,), (1,), padding=((3, 0),), dilations=dilation)
    figure = found.plot()
    (panel,) = figure.axes
    squares, bars = panel.patches[:-1], panel.patches[-1:]
    assert [square.get_x() for square in squares] == list(range(-3, 197))
    assert [(bar.get_x(), bar.get_width()) for bar in bars] == [(-3, 200)]
    assert [line.get_xdata()[0] for line in panel.lines] == [*np.arange(-2.5, 197, dilation)]
    assert "9000 elements  ..." in [text.get_text() for text in panel.texts]


@pytest.mark.parametrize(
    ("window", "what", "facts"),
    [
        ((1, 4), "`window` = 4 is not in the picture of pooled axis 1", "windows 0 to 3 of 4 on"),
        (9, "`window` = 9 is not in the picture of pooled axis 0", "windows 0 to 3 of 4 on"),
    ],
)
def test_a_window_that_does_not_exist_is_not_highlighted(window: Any, what: str, facts: str):
    with pytest.raises(ValueError, match=rf"^Explanation.plot: {what}\.\n.*{facts}"):
        example().plot(window=window)


def test_a_window_that_is_not_drawn_is_not_highlighted():
    found = explain((1, 100, 1), (3,), 2)
    assert found.plot(window=(18,)).axes
    with pytest.raises(ValueError, match="windows 0 to 18 of 49 on this axis"):
        found.plot(window=(19,))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none/a.png", "No such file or directory"),
        ("a.docx", "Format 'docx' is not"),
        (".", "it is a"),
    ],
)
def test_a_picture_that_cannot_be_written(
    name: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / name
    with pytest.raises(ValueError, match=rf"^Explanation.plot: `path` = .* cannot .*\n.*{reason}"):
        example().plot(path)
    line = f"explain --shape 2,9,3 --window 3 --strides 2 --plot {path}"
    assert main(line.split()) == 1
    assert re.match(r"explain: `--plot` = .* cannot be written\.\n", capsys.readouterr().err)
    assert not list(tmp_path.parent.glob(f"{tmp_path.name}.*"))


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "jaxpool._explain.picture", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "jaxpool\[plot\]"'):
        example().plot()


LINE = (
    "--shape 8,112,112,64 --window 3,3 --strides 2,2 --padding SAME --rounding ceil_torch "
    "--data-format NHWC"
)


def test_the_command_prints_what_the_function_says(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", *LINE.split()]) == 0
    words: dict[str, Any] = {"rounding": "ceil_torch", "data_format": "NHWC"}
    found = explain((8, 112, 112, 64), (3, 3), (2, 2), "SAME", **words)
    assert capsys.readouterr().out == f"{found}\n"


def test_padding_in_pairs_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    line = "--shape 2,9,13,3 --window 3,4 --strides 2,5 --padding 1:0,2:1 --dilations 2,1"
    options = ["--rounding", "ceil", "--op", "avg_pool", "--exclude-pad"]
    plot = ["--plot", str(tmp_path / "out.png")]
    assert main(["explain", *line.split(), *options, *plot]) == 0
    want = example(op="avg_pool", count_include_pad=False)
    assert capsys.readouterr().out == f"{want}\n"
    assert (tmp_path / "out.png").stat().st_size > 5000


def test_a_window_that_does_not_fit_fails_in_one_message(capsys: pytest.CaptureFixture[str]):
    assert main("explain --shape 5,4 --window 7 --strides 1".split()) == 1
    error = capsys.readouterr().err
    assert re.match(r"explain: `--window` = 7 does not fit pooled axis 0\.\n  It spans", error)


def test_a_long_axis_is_explained_at_once():
    start = time.perf_counter()
    for window, stride in ((1, 1), (10**6, 1), (7, 10**6), (2**30, 2**30)):
        found = explain((2**31 - 1, 1), (window,), stride, op="avg_pool", rounding="ceil")
        assert f"axis 0         {2**31 - 1} elements" in str(found)
    assert time.perf_counter() - start < 10
