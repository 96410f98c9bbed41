"""``jaxpool.patch``: installed libraries pool in jaxpool, and are restored."""

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

import equinox
import flax.linen
import haiku
import jax
import jax.numpy as jnp
import numpy as np
import peers
import pytest
from flax import nnx
from flax.linen import avg_pool as imported_long_ago
from flax.linen.pooling import pool as flax_pool
from fresh import printed
from helpers import QUICK, permutation
from jax import lax

import jaxpool
from jaxpool._patch import route

pytestmark = [pytest.mark.grid(8), pytest.mark.usefixtures("as_installed")]

peers.require("flax")

# Called as models call them, including wrong calls.
nn: Any = flax.linen
hk: Any = haiku
eqx: Any = equinox

REPLACED = {
    "flax": [f"flax.linen.pooling.{name}" for name in ("max_pool", "min_pool", "avg_pool")]
    + ["flax.linen.pooling.pool"],
    "haiku": ["haiku.max_pool", "haiku.avg_pool"],
    "equinox": ["equinox.nn.Pool"]
    + [f"equinox.nn.AvgPool{count}d" for count in (1, 2, 3)]
    + ["equinox.nn.AdaptivePool"],
}
ONES = np.ones((1, 32, 32, 1), jnp.bfloat16)
"""Their average in bfloat16 is 0.25 in the libraries, and 1 in jaxpool."""


def averages() -> dict[str, float]:
    """Return each library's average of ones."""
    return {
        "flax": nn.avg_pool(ONES, (32, 32)).item(),
        "haiku": hk.avg_pool(ONES, (32, 32, 1), (1, 1, 1), "VALID").item(),
        "equinox": eqx.nn.AvgPool2d(32)(jnp.asarray(ONES[..., 0])).item(),
    }


THEIRS = dict.fromkeys(REPLACED, 0.25)


@pytest.mark.parametrize("library", REPLACED)
def test_one_library_is_replaced_and_restored(library: str) -> None:
    assert averages() == THEIRS
    made = jaxpool.patch(library)
    assert made.libraries == (library,) and list(made.replaced) == REPLACED[library]
    assert averages() == {**THEIRS, library: 1.0}
    assert jaxpool.unpatch(library) == (library,)
    assert averages() == THEIRS


def test_all_that_is_installed_is_replaced_without_a_name() -> None:
    made = jaxpool.patch()
    assert list(made.replaced) == sum(REPLACED.values(), [])
    assert averages() == dict.fromkeys(REPLACED, 1.0)
    assert repr(made).startswith("jaxpool replaces flax.linen.pooling.max_pool, ")
    assert jaxpool.unpatch() == tuple(REPLACED) and jaxpool.unpatch() == ()


def test_patching_twice_is_patching_once() -> None:
    before = nn.max_pool.__code__, vars(eqx.nn.Pool)["__call__"]
    for _ in range(3):
        jaxpool.patch()
    assert jaxpool.unpatch() == tuple(REPLACED)
    assert (nn.max_pool.__code__, vars(eqx.nn.Pool)["__call__"]) == before
    assert averages() == THEIRS


def test_every_reference_to_a_function_is_served() -> None:
    bound = functools.partial(nn.avg_pool, window_shape=(32, 32))
    by_name = getattr(nnx, "avg_" + "pool")  # as in models that select their pool by name
    signature, text = inspect.signature(nn.avg_pool), nn.avg_pool.__doc__
    with jaxpool.patch("flax"):
        found = [f(ONES, (32, 32)).item() for f in (imported_long_ago, by_name)]
        assert [*found, bound(ONES).item()] == [1.0] * 3
        assert (inspect.signature(nn.avg_pool), nn.avg_pool.__doc__) == (signature, text)


def test_layers_that_exist_already_are_served() -> None:
    layer = eqx.nn.AvgPool2d(32)
    with jaxpool.patch("equinox"):
        assert layer(jnp.asarray(ONES[..., 0])).item() == 1.0

    class Subclass(eqx.nn.AvgPool2d):
        pass

    with jaxpool.patch():
        assert Subclass(32)(jnp.asarray(ONES[..., 0])).item() == 1.0


# --- holders --------------------------------------------------------------------------------------


def test_the_outer_block_keeps_what_the_inner_one_leaves() -> None:
    with jaxpool.patch("flax"):
        with jaxpool.patch("flax", "haiku"):
            assert averages() == {**THEIRS, "flax": 1.0, "haiku": 1.0}
        assert averages() == {**THEIRS, "flax": 1.0}
    assert averages() == THEIRS


def test_a_block_leaves_a_patch_that_was_there_before() -> None:
    jaxpool.patch("flax")
    with jaxpool.patch("flax"):
        pass
    assert averages()["flax"] == 1.0


def test_a_block_ends_with_an_error_and_after_unpatch() -> None:
    with pytest.raises(KeyError), jaxpool.patch("flax"):
        raise KeyError
    assert averages() == THEIRS
    with jaxpool.patch("flax"):
        assert jaxpool.unpatch() == ("flax",)
        assert averages() == THEIRS
    assert averages() == THEIRS


def test_a_block_may_be_entered_again() -> None:
    made = jaxpool.patch("flax")
    for _ in range(3):
        with made:
            with made:
                pass
            assert averages()["flax"] == 1.0
        assert averages() == THEIRS


def test_blocks_overlap_in_threads() -> None:
    """The pools are replaced for every thread as long as it is inside its block."""
    failures: list[float] = []
    start = threading.Barrier(8)

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        start.wait()
        for _ in range(30):
            with jaxpool.patch("flax"):
                for _ in range(random.integers(1, 4)):
                    found = nn.avg_pool(ONES, (32, 32)).item()
                    failures.extend([found] if found != 1.0 else [])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and averages() == THEIRS


# --- the libraries' shapes, dtypes, defaults and errors -------------------------------------------

IMAGES = permutation((2, 9, 7, 3), "float32", np.random.default_rng(0))
PICTURE = permutation((3, 9, 8), "float32", np.random.default_rng(0))
LINE, BLOCK = (
    permutation((3, 9), "float32", np.random.default_rng(0)),
    permutation((2, 5, 6, 7), "float32", np.random.default_rng(0)),
)


def one(x: Any) -> Any:
    """Return 1 in the dtype of an array: Flax raises for a start of another dtype."""
    return x.dtype.type(1)


CALLS: dict[str, Callable[[Any], Any]] = {
    "nn.max_pool": lambda x: nn.max_pool(x, (2, 3)),
    "nn.max_pool, strides": lambda x: nn.max_pool(x, (3, 2), (2, 3), "SAME"),
    "nn.max_pool, pairs": lambda x: nn.max_pool(x, (3, 2), (2, 1), ((1, 0), (0, 1))),
    "nn.max_pool, cropped": lambda x: nn.max_pool(x, (3, 2), (2, 1), ((-1, 0), (0, 1))),
    "nn.max_pool, too large": lambda x: nn.max_pool(x, (30, 2)),
    "nn.max_pool, no batch": lambda x: nn.max_pool(x[0], (2, 2), (2, 2)),
    "nnx.min_pool": lambda x: nnx.min_pool(x, (2, 3), (1, 2), "SAME"),
    "nn.avg_pool": lambda x: nn.avg_pool(x, (2, 3), (1, 2), "SAME"),
    "nn.avg_pool, real": lambda x: nn.avg_pool(x, (2, 3), (1, 2), "SAME", False),
    "nn.pool": lambda x: flax_pool(x, 0.0, lax.add, (2, 2), (1, 2), "VALID"),
    "nn.pool of a product": lambda x: flax_pool(x, one(x), lax.mul, (2, 2), (1, 2), "VALID"),
    "nnx.max_pool": lambda x: nnx.max_pool(x, window_shape=(2, 2), strides=(2, 2)),
    "hk.max_pool": lambda x: hk.max_pool(x, (1, 3, 2, 1), (1, 2, 1, 1), "SAME"),
    "hk.max_pool, short": lambda x: hk.max_pool(x, (3, 2, 1), (2, 1, 1), "VALID"),
    "hk.max_pool, channels": lambda x: hk.max_pool(x, (2, 2), (2, 2), "SAME"),
    "hk.max_pool, batch": lambda x: hk.max_pool(x, (2, 2, 1, 1), (1, 2, 1, 1), "SAME"),
    "hk.max_pool, first": lambda x: hk.max_pool(x, (1, 1, 3, 2), (1, 1, 2, 1), "SAME", 1),
    "hk.avg_pool": lambda x: hk.avg_pool(x, (1, 3, 2, 1), (1, 2, 1, 1), "SAME"),
    "hk.avg_pool, nothing": lambda x: hk.avg_pool(x, (1, 1, 1, 1), (1, 1, 1, 1), "VALID"),
    "hk.AvgPool": lambda x: hk.testing.transform_and_run(
        lambda: hk.AvgPool((3, 2, 1), (2, 1, 1), "VALID")(x)
    )(),
}
LAYERS: dict[str, tuple[Any, np.ndarray]] = {
    "MaxPool1d": (eqx.nn.MaxPool1d(3, 2, 1), LINE),
    "MaxPool2d": (eqx.nn.MaxPool2d((3, 2), (2, 1), ((1, 0), (0, 2))), PICTURE),
    "MaxPool2d, default stride": (eqx.nn.MaxPool2d(2), PICTURE),
    "MaxPool2d, ceil": (eqx.nn.MaxPool2d(3, 2, use_ceil=True), PICTURE),
    "MaxPool3d": (eqx.nn.MaxPool3d(2, 2, (1, 0, 1)), BLOCK),
    "AvgPool1d": (eqx.nn.AvgPool1d(3, 2, 1), LINE),
    "AvgPool2d": (eqx.nn.AvgPool2d((3, 2), (2, 1), ((1, 0), (0, 2))), PICTURE),
    "AvgPool2d, ceil": (eqx.nn.AvgPool2d(3, 2, use_ceil=True), PICTURE),
    "AvgPool3d": (eqx.nn.AvgPool3d(2, 2, (1, 0, 1)), BLOCK),
    "AdaptiveAvgPool1d": (eqx.nn.AdaptiveAvgPool1d(3), LINE),
    "AdaptiveAvgPool2d": (eqx.nn.AdaptiveAvgPool2d((3, 4)), PICTURE),
    "AdaptiveAvgPool2d, uneven pieces": (eqx.nn.AdaptiveAvgPool2d((4, 5)), PICTURE),
    "AdaptiveAvgPool2d, one piece": (eqx.nn.AdaptiveAvgPool2d(1), PICTURE),
    "AdaptiveAvgPool3d": (eqx.nn.AdaptiveAvgPool3d((2, 3, 7)), BLOCK),
    "AdaptiveMaxPool1d": (eqx.nn.AdaptiveMaxPool1d(3), LINE),
    "AdaptiveMaxPool2d": (eqx.nn.AdaptiveMaxPool2d((3, 4)), PICTURE),
    "AdaptiveMaxPool2d, uneven pieces": (eqx.nn.AdaptiveMaxPool2d((4, 3)), PICTURE),
    "AdaptiveMaxPool3d": (eqx.nn.AdaptiveMaxPool3d((5, 3, 1)), BLOCK),
    "an adaptive minimum": (eqx.nn.AdaptivePool((3, 4), 2, jnp.min), PICTURE),
    "a minimum": (eqx.nn.Pool(np.inf, lax.min, 2, 2), PICTURE),
    "a product": (eqx.nn.Pool(1.0, lax.mul, 2, 2), PICTURE),
}


def same_with_and_without(call: Callable[[Any], Any], x: Any) -> None:
    before = call(x)
    with jaxpool.patch():
        after = call(x)
    assert (after.dtype, after.shape) == (before.dtype, before.shape)
    np.testing.assert_allclose(after, before, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_functions_keep_shapes_and_dtypes(name: str) -> None:
    same_with_and_without(CALLS[name], jnp.asarray(IMAGES / 10 + 1))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_keep_shapes_and_dtypes(name: str) -> None:
    layer, x = LAYERS[name]
    same_with_and_without(layer, jnp.asarray(x / 10 + 1))


ADAPTIVE = [name for name in LAYERS if name.startswith("Adaptive")]


@pytest.mark.parametrize("name", ADAPTIVE)
def test_adaptive_layers_have_the_gradients_of_the_library(name: str) -> None:
    """The numbers of a piece differ, since the library splits the gradient of ties."""
    layer, x = LAYERS[name]

    def slope(x: jax.Array) -> jax.Array:
        """Return a gradient, traced at every call, because the layer may be patched by then."""
        return jax.jit(jax.grad(lambda x: (layer(x) ** 2).sum()), compiler_options=QUICK)(x)

    same_with_and_without(slope, jnp.asarray(x / 10 + 1))


@pytest.mark.parametrize("name", ADAPTIVE)
def test_adaptive_layers_really_run_in_jaxpool(name: str) -> None:
    layer, x = LAYERS[name]
    text = lambda: str(jax.make_jaxpr(lambda x: layer(x))(jnp.asarray(x)))  # noqa: E731
    op = "avg_pool" if "Avg" in name else "max_pool"
    before = text()
    with jaxpool.patch("equinox"):
        assert f"name={op}" in text() and f"name={op}" not in before


def test_more_pieces_than_elements_are_the_error_of_the_library() -> None:
    layer = eqx.nn.AdaptiveAvgPool2d((10, 8))
    with pytest.raises(ZeroDivisionError):
        layer(jnp.asarray(PICTURE))
    with jaxpool.patch(), pytest.raises(ZeroDivisionError):
        layer(jnp.asarray(PICTURE))


def test_integers_keep_shapes_and_dtypes() -> None:
    images = jnp.asarray(IMAGES).astype("int32")
    for name in ("nn.max_pool", "nn.avg_pool", "nn.pool", "hk.max_pool", "hk.avg_pool"):
        same_with_and_without(CALLS[name], images)
    for name in ("MaxPool2d", "AvgPool2d, ceil", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d"):
        same_with_and_without(LAYERS[name][0], jnp.asarray(PICTURE).astype("int32"))


def test_an_int_window_of_haiku_is_the_same_and_warns_no_more() -> None:
    with pytest.warns(DeprecationWarning):
        before = hk.max_pool(IMAGES, 2, 2, "SAME")
    with jaxpool.patch("haiku"):
        np.testing.assert_array_equal(hk.max_pool(IMAGES, 2, 2, "SAME"), before)


def test_what_jaxpool_refuses_runs_in_the_library() -> None:
    call = lambda x: nn.avg_pool(x, (2, 2))  # noqa: E731
    same_with_and_without(call, jnp.asarray(IMAGES).astype(jnp.complex64))


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.max_pool(IMAGES, (2, 2), padding=((1, 1),)),
        lambda: hk.max_pool(IMAGES, (2, 2, 1), (2, 2, 1), "FULL"),
        lambda: eqx.nn.MaxPool2d(2)(jnp.asarray(IMAGES)),
    ],
)
def test_errors_are_those_of_the_library(call: Callable[[], Any]) -> None:
    with pytest.raises(Exception) as before:
        call()
    with jaxpool.patch(), pytest.raises(type(before.value)) as after:
        call()
    assert str(after.value) == str(before.value)


# --- models with convolutions ---------------------------------------------------------------------


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.max_pool(nn.relu(nn.Conv(4, (3, 3))(x)), (3, 3), (2, 2), "SAME")
        x = nn.avg_pool(nn.Conv(5, (3, 3))(x), (2, 2), (2, 2))
        return nn.Dense(3)(x.reshape(x.shape[0], -1))


def haiku_network(x: Any) -> Any:
    x = hk.MaxPool((3, 3, 1), (2, 2, 1), "SAME")(jax.nn.relu(hk.Conv2D(4, 3)(x)))
    return hk.Linear(3)(hk.Flatten()(hk.avg_pool(x, (2, 2, 1), (2, 2, 1), "SAME")))


def begun(init: Callable[..., Any]) -> Any:
    """Return the initial parameters of a model."""
    return jax.jit(init, compiler_options=QUICK)(jax.random.key(1), jnp.asarray(IMAGES))


def linen_model() -> tuple[Callable[..., Any], Any]:
    """Return a function of parameters and images, and its parameters."""
    model = Linen()
    return model.apply, begun(model.init)


def haiku_model() -> tuple[Callable[..., Any], Any]:
    model = hk.without_apply_rng(hk.transform(haiku_network))
    return model.apply, begun(model.init)


def equinox_model() -> tuple[Callable[..., Any], Any]:
    keys = jax.random.split(jax.random.key(1))
    layers = [eqx.nn.Conv2d(3, 4, 3, key=keys[0]), eqx.nn.MaxPool2d(3, 2, 1), jax.nn.relu]
    layers += [eqx.nn.Conv2d(4, 5, 1, key=keys[1]), eqx.nn.AvgPool2d(2, 2)]
    chain = eqx.nn.Sequential(
        [x if isinstance(x, eqx.Module) else eqx.nn.Lambda(x) for x in layers]
    )
    arrays, rest = eqx.partition(chain, eqx.is_array)
    return lambda p, x: jax.vmap(eqx.combine(p, rest))(x.transpose(0, 3, 1, 2)), arrays


MODELS = {"flax": linen_model, "haiku": haiku_model, "equinox": equinox_model}


@pytest.mark.parametrize("library", REPLACED)
def test_a_model_has_the_same_outputs_and_gradients(library: str) -> None:
    apply, parameters = MODELS[library]()
    images = jnp.asarray(IMAGES / 100)

    def step(parameters: Any, x: Any) -> Any:
        value = apply(parameters, x)
        return (value**2).sum(), value

    plain = jax.jit(jax.value_and_grad(step, has_aux=True))
    (_, before), slopes = plain(parameters, images)
    with jaxpool.patch(library):
        fresh = jax.jit(jax.value_and_grad(lambda p, x: step(p, x), has_aux=True))
        (_, after), patched = fresh(parameters, images)
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), patched, slopes
    )


def test_a_model_really_runs_in_jaxpool() -> None:
    apply, parameters = linen_model()
    images = jnp.asarray(IMAGES / 100)
    text = lambda: str(jax.make_jaxpr(lambda p: apply(p, images))(parameters))  # noqa: E731
    before = text()
    with jaxpool.patch("flax"):
        assert "platform_index" in text() and "platform_index" not in before


# --- what can go wrong ----------------------------------------------------------------------------


def test_an_unknown_library_is_an_error() -> None:
    for function in (jaxpool.patch, jaxpool.unpatch):
        with pytest.raises(ValueError, match=rf"^{function.__name__}: 'torch' is not a library"):
            function("torch")
    names: Any = ["flax", "haiku"]
    with pytest.raises(ValueError, match='Give names such as "flax", "haiku"; for other'):
        jaxpool.patch(names)
    with jaxpool.patch("flax", "haiku"):
        assert jaxpool.unpatch() == ("flax", "haiku")


def test_a_library_that_is_not_installed_is_an_error() -> None:
    program = "import sys; sys.modules['haiku'] = None\nimport jaxpool\njaxpool.patch('haiku')"
    with pytest.raises(RuntimeError, match="ModuleNotFoundError"):
        printed("-c", program)


def test_nothing_is_replaced_by_an_import() -> None:
    program = f"""
import jaxpool, jax.numpy as jnp
from flax import linen
print(linen.avg_pool(jnp.ones({ONES.shape}, jnp.bfloat16), (32, 32)).item())
"""
    assert printed("-c", program) == "0.25\n"


def test_a_version_with_other_arguments_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from jaxpool._patch import libraries, swap

    def max_pool(inputs: Any, window_shape: Any, strides: Any = None, dilation: Any = 1) -> Any:
        return inputs

    with pytest.raises(NotImplementedError, match="has unexpected arguments"):
        swap.code_swap("flax.linen.pooling.max_pool", max_pool, libraries._flax_max_pool)


def test_every_replacement_has_a_pool() -> None:
    jaxpool.patch()
    jaxpool.unpatch()
    names = {name for row in REPLACED.values() for name in row}
    theirs = {name for name in route.ORIGINALS if not name.startswith("keras")}
    assert {name for name in route._REPLACEMENTS if not name.startswith("keras")} == theirs == names
