"""The recipe for ``pandas.Series.rolling`` in docs/how-to/rolling.md against pandas itself."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from fresh import ROOT
from peers import require

import jaxpool

pandas = require("pandas")
pytestmark = pytest.mark.grid(21)


@pytest.fixture(scope="module")
def rolling() -> Callable[..., Any]:
    """Return the function that the page defines."""
    page = (ROOT / "docs" / "how-to" / "rolling.md").read_text()
    code = re.search(r"^def rolling\(.*?\n\n\n", page, re.MULTILINE | re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {"jnp": jnp, "jaxpool": jaxpool}
    exec(code[0], names)
    return names["rolling"]


def quantile(q: float, method: Any) -> Callable[..., Any]:
    return lambda x, *windows, **words: jaxpool.quantile_pool(
        x, q, *windows, method=method, **words
    )


STATISTICS: dict[str, tuple[Callable[[Any], Any], Callable[..., Any]]] = {
    "max": (lambda windows: windows.max(), jaxpool.max_pool),
    "min": (lambda windows: windows.min(), jaxpool.min_pool),
    "sum": (lambda windows: windows.sum(), jaxpool.sum_pool),
    "mean": (lambda windows: windows.mean(), partial(jaxpool.avg_pool, count_include_pad=False)),
    "median": (lambda windows: windows.median(), jaxpool.median_pool),
    "var": (lambda windows: windows.var(), partial(jaxpool.var_pool, correction=1)),
    "std": (lambda windows: windows.std(), partial(jaxpool.std_pool, correction=1)),
    **{
        f"quantile {method}": (
            lambda windows, method=method: windows.quantile(0.3, interpolation=method),
            quantile(0.3, method),
        )
        for method in ("linear", "lower", "higher", "midpoint")
    },
}


@pytest.mark.parametrize("closed", ["right", "left", "both", "neither"])
@pytest.mark.parametrize("name", STATISTICS)
def test_the_recipe_is_pandas(
    name: str, closed: Any, rolling: Callable[..., Any], rng: np.random.Generator
) -> None:
    theirs, ours = STATISTICS[name]
    x = rng.permutation(23).astype(np.float32) - 7
    x[rng.random(23) < 0.2] = np.nan
    x[rng.integers(0, 23, 2)] = np.inf, -np.inf
    for window in (2, 3, 6):
        for center in (False, True):
            for least in (None, 1, 2) if name == "sum" else (None, 0, 1, 2):
                windows = pandas.Series(x).rolling(window, least, center=center, closed=closed)
                want = theirs(windows).to_numpy()
                words = {"min_periods": least, "center": center, "closed": closed}
                got = rolling(ours, jnp.asarray(x), window, **words)
                np.testing.assert_allclose(
                    got, want, rtol=2e-6, atol=1e-6, err_msg=str((window, words))
                )
