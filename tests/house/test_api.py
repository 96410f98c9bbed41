"""The public interface: uniform signatures, documented functions, value semantics."""

import copy
import dataclasses
import functools
import importlib
import inspect
import itertools
import math
import pickle
import re
import subprocess
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fresh import ROOT
from helpers import assert_same

import jaxpool
from jaxpool.compat import torch
from jaxpool.compat.torch import _overloads

POSITIONAL = ("window_shape", "strides", "padding")
SHARED = {
    "dilations": 1,
    "rounding": "floor",
    "data_format": "channels_last",
    "where": None,
    "implementation": "auto",
}
"""Keyword-only settings of every op, with their defaults."""

OWN: dict[str, dict[str, Any]] = {
    "max_pool": {},
    "min_pool": {},
    "max_pool_with_argmax": {"index_space": "spatial", "index_dtype": None},
    "avg_pool": {"count_include_pad": True, "divisor_override": None, "weights": None},
    "sum_pool": {},
    "pool": {},
}
"""The ops over sliding windows, and the keyword-only settings that each has besides."""

# Functions of a shape instead of an array: the parameter's name, and the settings shared with ops.
ON_SHAPES = {
    "geometry": ("spatial_shape", ("dilations", "rounding")),
    "output_shape": ("input_shape", ("dilations", "rounding", "data_format")),
}
VALUE_CLASSES = ("Window", "Geometry", "Axis")

FUNCTIONS = [name for name in jaxpool.__all__ if inspect.isfunction(getattr(jaxpool, name))]
CLASSES = [name for name in jaxpool.__all__ if inspect.isclass(getattr(jaxpool, name))]


def _largest(x: Any, *window: Any, **settings: Any) -> jax.Array:
    """Return ``pool`` called with the arguments of the other ops."""
    return jaxpool.pool(x, jaxpool.reductions.MAX, *window, **settings)


OPS: dict[str, Callable[..., Any]] = {name: getattr(jaxpool, name) for name in OWN}
OPS["pool"] = _largest


# --- names and signatures -------------------------------------------------------------------------


def test_the_core_is_public() -> None:
    assert {*OWN, *ON_SHAPES} <= set(FUNCTIONS)
    assert set(VALUE_CLASSES) <= set(CLASSES)
    assert set(jaxpool.__all__) == {*FUNCTIONS, *CLASSES}


def test_every_public_name_is_there_and_no_other() -> None:
    found = {
        name
        for name, value in vars(jaxpool).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert found == set(jaxpool.__all__)
    assert list(jaxpool.__all__) == sorted(jaxpool.__all__)
    namespace: dict[str, Any] = {}
    exec("from jaxpool import *", namespace)
    assert set(jaxpool.__all__) == set(namespace) - {"__builtins__"}


def test_the_changelog_has_every_name() -> None:
    named = re.findall(r"`(?:jaxpool\.)?([A-Za-z]\w*)", (ROOT / "CHANGELOG.md").read_text())
    assert set(jaxpool.__all__) - set(named) == set()


def test_further_modules_are_there_after_importing_the_package() -> None:
    """They are loaded at their first use, and ``dir`` lists them before."""
    lines = [
        "import sys, jaxpool",
        "rooms = 'compat', 'filters', 'layers', 'sharding'",
        "assert set(rooms) < set(dir(jaxpool)) == {*jaxpool.__all__, 'reductions', *rooms}",
        "assert not any(f'jaxpool.{room}' in sys.modules for room in rooms)",
        "assert jaxpool.compat.torch.max_pool2d and jaxpool.sharding.pool_shards",
        "assert all(getattr(jaxpool, room).__name__ == f'jaxpool.{room}' for room in rooms)",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        jaxpool.nothing  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018


def test_the_module_of_reductions_shows_its_public_names_alone() -> None:
    assert dir(jaxpool.reductions) == sorted(jaxpool.reductions.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_know_their_names(name: str) -> None:
    function = getattr(jaxpool, name)
    assert inspect.isfunction(function) and function.__name__ == name


def _split(function: Callable[..., Any]) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    """Return the positional parameters, and the defaults of the keyword-only ones."""
    parameters = list(inspect.signature(function).parameters.values())
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    others = [p for p in parameters if p not in keywords]
    names = {"libraries"} if function in (jaxpool.patch, jaxpool.unpatch) else set()
    assert {p.name for p in others if p.kind is p.VAR_POSITIONAL} == names
    assert not any(p.kind is p.POSITIONAL_ONLY for p in others)
    return others, {p.name: p.default for p in keywords}


@pytest.mark.parametrize("op", OWN)
def test_every_op_has_the_same_signature(op: str) -> None:
    positional, keywords = _split(getattr(jaxpool, op))
    first = ("x", "reduction") if op == "pool" else ("x",)
    assert tuple(p.name for p in positional) == (*first, *POSITIONAL)
    required = [inspect.Parameter.empty] * (len(first) + 2)
    assert [p.default for p in positional] == [*required, "VALID"]
    assert keywords == {**SHARED, **OWN[op]}
    shared = [name for name in keywords if name in SHARED]
    assert shared == list(SHARED), "the order is the same in every op"


@pytest.mark.parametrize("name", ON_SHAPES)
def test_functions_of_shapes_take_the_settings_of_the_ops(name: str) -> None:
    first, settings = ON_SHAPES[name]
    positional, keywords = _split(getattr(jaxpool, name))
    assert tuple(p.name for p in positional) == (first, *POSITIONAL)
    assert [p.default for p in positional] == [inspect.Parameter.empty] * 3 + ["VALID"]
    assert keywords == {setting: SHARED[setting] for setting in settings}
    assert list(keywords) == list(settings)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_setting_means_the_same_in_every_function(name: str) -> None:
    """A setting of the ops has the same default in every function, and a name."""
    positional, keywords = _split(getattr(jaxpool, name))
    shared = {**SHARED, "padding": "VALID", "index_space": "spatial", "index_dtype": None}
    for setting in shared.keys() & keywords.keys():
        assert keywords[setting] == shared[setting], setting
    optional = [p.name for p in positional if p.default is not p.empty]
    assert optional in ([], ["padding"])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_and_result_is_annotated(name: str) -> None:
    signature = inspect.signature(getattr(jaxpool, name))
    assert signature.return_annotation is not inspect.Signature.empty
    missing = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
    assert missing == []


OF_ANY_TYPE = {
    *("footprint", "structure"),  # also nested lists of numbers
    *("x_or_shape", "path", "identity", "init", "settings"),
    *("node", "layer", "inputs", "output_shape"),  # objects of libraries that are not imported
    "p",  # of nnx: a number, and then an nnx.Param
}
ROOMS = ("", ".filters", ".reductions", ".sharding")
LIBRARIES = [
    *[f".compat.{name}" for name in jaxpool.compat.__all__],
    *[f".layers.{name}" for name in jaxpool.layers.__all__],
]


@pytest.mark.parametrize("room", [*ROOMS, *LIBRARIES])
def test_parameters_have_types(room: str) -> None:
    """All types exist: every name in an annotation is defined."""
    module = importlib.import_module(f"jaxpool{room}")
    for name in module.__all__:
        public = getattr(module, name)
        if not callable(public):
            continue
        methods = vars(public).items() if inspect.isclass(public) else ()
        called = [f for key, f in methods if key == "__call__" and inspect.isfunction(f)]
        for function in (public, *called):
            typing.get_type_hints(function)
            given = inspect.signature(function).parameters.values()
            untyped = {p.name for p in given if p.annotation in (Any, p.empty)} - {"self"}
            assert untyped <= OF_ANY_TYPE, (name, untyped)


@pytest.mark.parametrize("room", [".filters", ".sharding", *LIBRARIES])
def test_dir_shows_the_public_names_alone(room: str) -> None:
    module = importlib.import_module(f"jaxpool{room}")
    assert dir(module) == sorted(module.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_further_op_on_windows_has_the_order_of_the_others(name: str) -> None:
    positional, keywords = _split(getattr(jaxpool, name))
    names = [p.name for p in positional]
    if names[:1] == ["x"] and "window_shape" in names:
        assert tuple(names[-3:]) == POSITIONAL
        shared = [setting for setting in SHARED if setting in keywords]
        assert [key for key in keywords if key in SHARED] == shared
        assert {"dilations", "rounding", "data_format", "where"} <= set(keywords)


@pytest.mark.parametrize("op", OWN)
def test_shared_parameters_are_annotated_alike(op: str) -> None:
    ours = inspect.signature(getattr(jaxpool, op)).parameters
    model = inspect.signature(jaxpool.max_pool).parameters
    assert {name: ours[name].annotation for name in model} == {
        name: model[name].annotation for name in model
    }


@pytest.mark.parametrize("op", OWN)
def test_every_argument_may_be_given_by_name(op: str) -> None:
    x = np.arange(24.0, dtype=np.float32).reshape(2, 4, 3)
    words: dict[str, Any] = {"window_shape": (2,), "strides": 1, "padding": 1}
    by_place = OPS[op](x, *words.values())
    by_name = OPS[op](**dict(reversed(words.items())), x=x, **SHARED, **OWN[op])
    jax.tree.map(lambda a, b: assert_same(a, b, op), by_name, by_place)


# --- docstrings -----------------------------------------------------------------------------------

SECTIONS = ("Args", "Returns", "Derivatives", "Edge cases", "Raises", "References", "Example")
"""Of an op, in this order."""

LEFT_OUT = {
    "geometry": {"Derivatives"},  # integers have none
    "output_shape": {"Derivatives", "Edge cases"},
    "explain": {"Derivatives", "Edge cases", "References"},
    "receptive_field": {"Derivatives", "Edge cases"},
    "patch": {"Derivatives", "References"},  # not an op
    "unpatch": {"Derivatives", "Edge cases", "References"},
}


def sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring by heading, in order; "" is the text before them."""
    parts = re.split(
        r"^(Attributes|Args|Returns|Derivatives|Edge cases|Raises|References|Example):(?=\s)",
        text,
        flags=re.MULTILINE,
    )
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def docstring(name: str) -> str:
    text = getattr(jaxpool, name).__doc__
    assert text, f"{name} has no docstring"
    return inspect.cleandoc(text)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_the_sections_of_the_template(name: str) -> None:
    found = sections(docstring(name))
    expected = [section for section in SECTIONS if section not in LEFT_OUT.get(name, ())]
    assert [section for section in found if section in SECTIONS] == expected
    assert all(text.strip() for text in found.values())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_definition_comes_first(name: str) -> None:
    summary, blank, definition = sections(docstring(name))[""].split("\n", 2)
    assert summary.endswith(".") and len(summary) < 100 and blank == ""
    assert "``" in definition, "a formula says what the result is"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_arguments_are_described_once_each_in_order(name: str) -> None:
    """Every line at the indentation of the entries starts an entry: ``name, name: text``."""
    described: list[str] = []
    for line in sections(docstring(name))["Args"].strip("\n").split("\n"):
        assert line.startswith("  "), f"not indented: {line!r}"
        if line[2] != " ":
            entry = re.match(r"  (\w+(?:, \w+)*): \S", line)
            assert entry, f"neither an entry nor indented as the text of one: {line!r}"
            described += entry[1].split(", ")
    parameters = list(inspect.signature(getattr(jaxpool, name)).parameters)
    assert sorted(described) == sorted(parameters)
    assert described[0] == parameters[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lines_of_a_section_are_indented_under_it(name: str) -> None:
    """A wrapped line must differ from the text before the sections."""
    text = docstring(name)
    _, *after = re.split(r"^Args:\n", text, flags=re.MULTILINE)
    loose = [
        line
        for line in after[0].split("\n")
        if line and not line.startswith("  ") and not re.match(r"[A-Z]\w*( \w+)?:", line)
    ]
    assert loose == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_runs_the_function(name: str) -> None:
    example = sections(docstring(name))["Example"]
    assert re.search(rf"^ +>>> .*\b{name}\(", example, re.MULTILINE)


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_describes_its_fields(name: str) -> None:
    found = sections(docstring(name))
    fields = [field.name for field in dataclasses.fields(getattr(jaxpool, name))]
    assert re.findall(r"^  (\w+): ", found["Attributes"], re.MULTILINE) == fields


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_member_of_a_class_has_a_docstring(name: str) -> None:
    members = vars(getattr(jaxpool, name)).items()
    described = {
        key: value.__doc__
        for key, value in members
        if not key.startswith("_") and isinstance(value, (property, types.FunctionType))
    }
    assert all(described.values()), described


def test_the_docstring_reader_finds_what_is_missing() -> None:
    text = "Maximum.\n\nOver windows.\n\nArgs:\n  x: array.\nReturns: an array.\n"
    assert sections(text) == {"": "Maximum.\n\nOver windows.\n\n", "Args": "\n  x: array.\n",
                              "Returns": " an array.\n"}  # fmt: skip


# --- values ---------------------------------------------------------------------------------------


def _values() -> dict[str, Any]:
    window = jaxpool.Window([3, 2], range(2, 0, -1), "same", 1, "ceil")
    padding: Any = [(0, np.int8(1))]
    pairs = jaxpool.Window(3, 2, padding)
    shape = jaxpool.geometry((7, 5), (3, 2), (2, 1), ((1, 0), (0, 2)), rounding="ceil")
    return {
        "Window of a word": window,
        "Window of pairs": pairs,
        "Geometry": shape,
        "Axis": shape.axes[1],
    }


VALUES = _values()
over_values = pytest.mark.parametrize("name", VALUES)


@over_values
def test_values_are_equal_and_hash_by_content(name: str) -> None:
    value, again = VALUES[name], _values()[name]
    assert value is not again
    assert value == again and hash(value) == hash(again) and len({value, again}) == 1
    assert all(value != other for key, other in VALUES.items() if key != name)


@over_values
def test_values_are_frozen(name: str) -> None:
    value = VALUES[name]
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, 1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(value, field.name)


@over_values
def test_values_print_as_the_code_that_makes_them(name: str) -> None:
    value = VALUES[name]
    names = {cls: getattr(jaxpool, cls) for cls in VALUE_CLASSES}
    assert eval(repr(value), names) == value
    assert all(field.name in str(value) for field in dataclasses.fields(value))


@over_values
def test_values_survive_pickling_and_copying(name: str) -> None:
    value = VALUES[name]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) == value
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value
    assert dataclasses.replace(value) == value


def test_errors_survive_pickling() -> None:
    with pytest.raises(ValueError, match="`padding` = '.both'") as caught:
        jaxpool.max_pool(jnp.ones((1, 4, 1)), (2,), 2, "$both")
    for other in (pickle.loads(pickle.dumps(caught.value)), copy.deepcopy(caught.value)):
        assert str(other) == str(caught.value)
        assert "'$both'" in str(other)


REDUCTIONS = ("MAX", "MIN", "SUM", "MEAN", "PRODUCT", "LOGSUMEXP", "ANY", "ALL")


@pytest.mark.grid(4)
@pytest.mark.parametrize("name", [*REDUCTIONS, 2, 2.5, math.inf])
def test_reductions_survive_pickling_and_copying(name: str | float) -> None:
    known = jaxpool.reductions
    reduction = getattr(known, name) if isinstance(name, str) else known.lp(name)
    pool = lambda reduction: jaxpool.pool(jnp.arange(-3.0, 5), reduction, 3, 2, data_format="W")  # noqa: E731
    for other in (pickle.loads(pickle.dumps(reduction)), copy.deepcopy(reduction)):
        np.testing.assert_array_equal(pool(other), pool(reduction))


@over_values
def test_values_hold_python_integers_only(name: str) -> None:
    def leaves(item: Any) -> list[Any]:
        if dataclasses.is_dataclass(item):
            item = tuple(getattr(item, field.name) for field in dataclasses.fields(item))
        return [leaf for part in item for leaf in leaves(part)] if type(item) is tuple else [item]

    assert {type(leaf) for leaf in leaves(VALUES[name])} <= {int, str}


def test_values_are_no_pytrees_and_can_be_static() -> None:
    shape = VALUES["Geometry"]
    assert jax.tree.leaves(shape) == [shape]

    @functools.partial(jax.jit, static_argnums=1)
    def windows(x: jax.Array, shape: jaxpool.Geometry) -> jax.Array:
        return x * math.prod(shape.out_shape)

    assert windows(jnp.float32(1), shape) == math.prod(shape.out_shape)


def test_a_window_holds_canonical_settings() -> None:
    window = jaxpool.Window([3, 2], range(2, 0, -1), "same", 1, "ceil")
    assert window.kernel == (3, 2) and window.strides == (2, 1) and window.dilations == (1, 1)
    assert window.padding == "SAME_UPPER" and window.rounding == "ceil"
    assert jaxpool.Window(3, 2, [(0, 1)]).padding == ((0, 1),)
    assert jaxpool.Window((3, 2), 2, (1, 2)).padding == ((1, 1), (2, 2))
    assert jaxpool.Window((3, 2), 2, 1) != jaxpool.Window((3, 2), 2, "SAME")


# --- shapes ---------------------------------------------------------------------------------------

WORDS = ("VALID", "SAME", "SAME_UPPER", "SAME_LOWER", "same", "valid", "Same_Lower")
ROUNDINGS = ("floor", "ceil", "ceil_torch")
LAYOUTS: dict[str, tuple[tuple[int, ...], int]] = {
    "channels_last": ((2, 3, 9, 8, 4), 2),
    "channels_first": ((2, 3, 9, 8), 2),
    "NHWC": ((2, 9, 8, 3), 2),
    "NCHW": ((2, 3, 9, 8), 2),
    "HW": ((9, 8), 2),
    "CHW": ((0, 9, 8), 2),
    "HWC": ((9, 8, 0), 2),
    "NWC": ((0, 9, 3), 1),
    "NCW": ((2, 3, 8), 1),
    "W": ((9,), 1),
    "HWNC": ((9, 8, 2, 3), 2),
    "NDHWC": ((1, 8, 9, 7, 2), 3),
    "NCDHW": ((1, 2, 8, 9, 7), 3),
    "DNHCW": ((8, 2, 9, 3, 7), 3),
}
KERNELS, STRIDES, DILATIONS = (3, 2, 1), (2, 3, 1), (1, 2, 3)
PADDINGS = (*WORDS, 0, 2, "per axis", "pairs")


def _padding(word: Any, count: int) -> Any:
    pairs = ((1, 0), (0, 3), (2, 1))[:count]
    return {"per axis": (1, 2, 0)[:count], "pairs": pairs}.get(word, word)


@pytest.mark.grid(8)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_output_shape_is_the_shape_of_the_result(layout: str) -> None:
    shape, count = LAYOUTS[layout]
    array = jax.ShapeDtypeStruct(shape, np.float32)
    window = KERNELS[:count], STRIDES[:count]
    ops = itertools.cycle(OPS)
    for padding, rounding in itertools.product(PADDINGS, ROUNDINGS):
        words = {"rounding": rounding, "dilations": DILATIONS[:count], "data_format": layout}
        settings = (*window, _padding(padding, count))
        op = next(ops)
        expected = jaxpool.output_shape(shape, *settings, **words)
        assert type(expected) is tuple and all(type(size) is int for size in expected)
        result = jax.eval_shape(lambda x, op=op, s=settings, w=words: OPS[op](x, *s, **w), array)
        assert {part.shape for part in jax.tree.leaves(result)} == {expected}, (op, settings, words)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_output_shape_is_that_of_geometry(layout: str) -> None:
    shape, count = LAYOUTS[layout]
    letters = {"channels_last": "NNHWC", "channels_first": "NCHW"}.get(layout, layout)
    pooled = [axis for axis, letter in enumerate(letters) if letter in "DHW"]
    window = KERNELS[:count], STRIDES[:count]
    for padding, rounding in itertools.product(PADDINGS, ROUNDINGS):
        settings = (*window, _padding(padding, count))
        words: dict[str, Any] = {"rounding": rounding, "dilations": DILATIONS[:count]}
        found = jaxpool.geometry([shape[axis] for axis in pooled], *settings, **words)
        expected = list(shape)
        for axis, size in zip(pooled, found.out_shape, strict=True):
            expected[axis] = size
        got = jaxpool.output_shape(shape, *settings, **words, data_format=layout)
        assert got == tuple(expected), (settings, words)


@pytest.mark.parametrize("op", OPS)
def test_results_have_the_shape_they_promise(op: str) -> None:
    x = np.ones((2, 5, 6, 3), np.float32)
    words = {"rounding": "ceil", "dilations": (1, 2)}
    result = OPS[op](x, (2, 3), (3, 2), ((1, 0), (0, 2)), **words)
    expected = jaxpool.output_shape(x.shape, (2, 3), (3, 2), ((1, 0), (0, 2)), **words)
    assert {part.shape for part in jax.tree.leaves(result)} == {expected} == {(2, 3, 3, 3)}


# --- spellings of one call ------------------------------------------------------------------------

SPELLINGS: dict[str, tuple[Any, Any, Any, Any]] = {
    "lists": ([3, 2], [2, 1], [[1, 0], [2, 2]], [1, 2]),
    "arrays": (np.array([3, 2]), np.array([2, 1]), np.array([[1, 0], [2, 2]]), np.array([1, 2])),
    "arrays of JAX": (jnp.array([3, 2]), jnp.array([2, 1]), jnp.array([[1, 0], [2, 2]]), [1, 2]),
    "NumPy integers": ((np.int8(3), np.uint8(2)), (np.int64(2), 1), ([1, 0], np.int16(2)), (1, 2)),
    "ranges": (range(3, 1, -1), range(2, 0, -1), (range(1, -1, -1), 2), range(1, 3)),
    "0-d arrays": ((np.array(3), jnp.array(2)), (np.array(2), 1), ((1, np.array(0)), 2), (1, 2)),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("op", OPS)
def test_settings_may_be_spelled_in_many_ways(op: str, spelling: str) -> None:
    x = np.arange(2 * 5 * 6 * 3, dtype=np.float32).reshape(2, 5, 6, 3)
    window, strides, padding, dilations = SPELLINGS[spelling]
    got = OPS[op](x, window, strides, padding, dilations=dilations)
    want = OPS[op](x, (3, 2), (2, 1), ((1, 0), (2, 2)), dilations=(1, 2))
    jax.tree.map(lambda a, b: assert_same(a, b, (op, spelling)), got, want)
    assert jaxpool.output_shape(
        x.shape, window, strides, padding, dilations=dilations
    ) == jaxpool.output_shape(x.shape, (3, 2), (2, 1), ((1, 0), (2, 2)), dilations=(1, 2))


@pytest.mark.parametrize("op", OPS)
def test_one_integer_stands_for_all_axes(op: str) -> None:
    x = np.arange(2 * 5 * 6 * 3, dtype=np.float32).reshape(2, 5, 6, 3)
    short = OPS[op](x, 2, 2, 1, dilations=2, data_format="NHWC")
    long = OPS[op](x, (2, 2), (2, 2), ((1, 1), (1, 1)), dilations=(2, 2))
    zero_d = OPS[op](x, np.array(2), np.array(2), jnp.array(1), dilations=np.int8(2),
                     data_format="NHWC")  # fmt: skip
    jax.tree.map(lambda a, b: assert_same(a, b, op), short, long)
    jax.tree.map(lambda a, b: assert_same(a, b, op), zero_d, long)


@pytest.mark.parametrize(
    ("protocol", "family"),
    [
        (_overloads.SlidingMax, "max_pool[123]d"),
        (_overloads.AdaptiveMax, "adaptive_max_pool[123]d"),
        (_overloads.FractionalMax, "fractional_max_pool[23]d"),
    ],
)
def test_types_of_pools_with_indices_have_the_parameters_of_the_functions(
    protocol: Any, family: str
) -> None:
    functions = [name for name in torch.__all__ if re.fullmatch(family, name)]
    assert len(functions) == len(re.findall(r"\d", family))
    for name in functions:
        ours = inspect.signature(getattr(torch, name)).parameters
        for typed in typing.get_overloads(protocol.__call__):
            _, *parameters = inspect.signature(typed).parameters.values()
            assert [p.name for p in parameters] == list(ours)
            defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
            assert defaults.items() <= {p.name: p.default for p in ours.values()}.items()
            for p in parameters:
                if p.name != "return_indices":
                    assert p.annotation == ours[p.name].annotation
