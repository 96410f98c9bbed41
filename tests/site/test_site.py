"""The documentation in a real browser: every page, in desktop and phone size.

The site is built with warnings as errors, served on this machine, and opened in headless Chromium,
which must be installed. The checks of each page: it is not wider than the window, no file is
missing, no script fails, no other host is contacted, and both colour schemes are legible.
"""

import functools
import http.server
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fresh import PACKAGE_PARENT, ROOT

import jaxpool

pytestmark = pytest.mark.site

WIDTHS = (1280, 390)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    assert importlib.util.find_spec("sphinx"), 'install the tools: pip install ".[docs]"'
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E"]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(folder)],
        env={**os.environ, "PYTHONPATH": str(PACKAGE_PARENT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return folder


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Yield the address of the served site."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    assert CHROMIUM, "install Chromium, such as Debian's package chromium"
    from playwright.sync_api import sync_playwright  # pyright: ignore[reportMissingImports]

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=[*OPTIONS, *QUIET])
        yield launched
        launched.close()


def pages(site: Path) -> list[str]:
    """Return every built page, as an address below that of the site."""
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))


WIDEST = """Math.max(...Array.from(
    document.querySelectorAll("html, .page, .main, .content, article"),
    part => part.scrollWidth))"""
"""A part that scrolls sideways as a whole leaves the window as wide as it is."""


def _watched(page: Any, address: str) -> list[str]:
    """Return a list that collects the failures of a page from now on."""
    faults: list[str] = []
    page.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("requestfailed", lambda r: faults.extend(_failure(r)))
    page.on("response", lambda r: faults.append(f"{r.status}: {r.url}") if r.status > 399 else None)
    page.on(
        "request", lambda r: None if r.url.startswith((address, "data:")) else faults.append(r.url)
    )
    return faults


def _failure(request: Any) -> list[str]:
    """Return why a request failed; aborts by the next page, and missing files, are no failures."""
    return [] if "ERR_ABORTED" in request.failure else [f"{request.failure}: {request.url}"]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_and_loads(site: Path, address: str, browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    faults, wrong = _watched(page, address), {}
    for name in pages(site):
        page.goto(f"{address}/{name}")
        wide = page.evaluate(WIDEST)
        found = [*faults, *([f"{wide} pixels wide"] if wide > width else [])]
        if found:
            wrong[name] = found
        faults.clear()
    page.close()
    assert wrong == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_schemes(address: str, browser: Any, scheme: str) -> None:
    """WCAG asks for a contrast of 4.5 between text and its background."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{address}/getting-started.html")
    colours = page.evaluate(
        """() => ["article p", "article h1", "article a", ".highlight pre"].map(selector => {
            let element = document.querySelector(selector), back = element
            const colour = getComputedStyle(element).color
            while (getComputedStyle(back).backgroundColor === "rgba(0, 0, 0, 0)")
                back = back.parentElement
            return [selector, colour, getComputedStyle(back).backgroundColor]
        })"""
    )
    context.close()
    low = {name: c for name, *pair in colours if (c := contrast(*map(rgb, pair))) < 4.5}
    assert low == {}


def rgb(colour: str) -> list[float]:
    return [float(number) for number in re.findall(r"[\d.]+", colour)[:3]]


def contrast(one: list[float], other: list[float]) -> float:
    """Return the ratio of luminances, by the definition of WCAG 2."""
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour: list[float]) -> float:
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_the_contrast_is_that_of_black_and_white() -> None:
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("max_pool_with_argmax", "reference/maxima.html#jaxpool.max_pool_with_argmax"),
        ("rolling median", "how-to/rolling.html"),
    ],
)
def test_search_finds(address: str, browser: Any, words: str, target: str) -> None:
    page = browser.new_page()
    page.goto(f"{address}/index.html")
    page.fill("input[name=q]", words)
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li a")
    links = page.eval_on_selector_all("#search-results li a", "all => all.map(a => a.href)")
    page.close()
    assert any(target in link for link in links), links


def test_a_click_on_a_function_leads_to_its_reference(address: str, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(f"{address}/functions.html")
    page.click("text=adaptive_max_pool_with_argmax")
    heading = page.locator("#jaxpool\\.adaptive_max_pool_with_argmax")
    heading.wait_for()
    assert "adaptive.html" in page.url and "output_size" in heading.inner_text()
    page.close()


def test_every_function_is_listed_and_has_its_source(site: Path) -> None:
    functions = (site / "functions.html").read_text()
    reference = "".join(path.read_text() for path in (site / "reference").glob("*.html"))
    for name in jaxpool.__all__:
        if name in ("reductions", "sharding"):
            continue
        assert re.search(rf'href="reference/\w+\.html#jaxpool\.{name}"', functions), name
        assert f'id="jaxpool.{name}"' in reference, name
    assert reference.count("viewcode-link") > len(jaxpool.__all__)


def test_a_layer_does_not_repeat_the_page_of_its_op(site: Path) -> None:
    for library in ("linen", "nnx", "haiku", "equinox"):
        page = (site / "reference" / f"layers.{library}.html").read_text()
        assert f'id="jaxpool.layers.{library}.MaxPool"' in page
        assert not re.findall(r'id="([\w.]+\.(?:op|function))"', page)


def test_a_broken_link_stops_the_build(tmp_path: Path) -> None:
    """The tests above rely on this switch."""
    (tmp_path / "conf.py").write_text('extensions = ["myst_nb"]\nnitpicky = True\n')
    (tmp_path / "index.md").write_text("# A\n\n[gone](gone.md)\n")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(tmp_path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode and "gone.md" in done.stderr
