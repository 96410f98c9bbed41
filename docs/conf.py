"""How Sphinx builds the site: ``sphinx-build -W --keep-going docs docs/_build``."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent / "_ext")]

import jaxpool  # noqa: E402

project = "jaxpool"
author = "The jaxpool authors"
copyright = author  # the name that Sphinx asks for
version = release = jaxpool.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "myst_nb",
    "house_docstrings",
    "made_pages",
]
smartquotes = False  # strings in running text keep their quotes
exclude_patterns = ["_build", "_ext"]

# Every broken link, unknown name or missing page is a warning, which the build takes for an error.
nitpicky = True
nitpick_ignore_regex = [
    # Names of other packages: their inventories would have to be fetched while building.
    (r"py:.*", r"(jax|xml|os|numpy|np|collections|typing|types|pathlib)\b.*"),
    (r"py:.*", r"(equinox|eqx|haiku|hk|flax|nn|nnx)\b.*"),
    (r"py:data", r"jaxpool\.compat\..*"),  # tables of names, which the reference leaves out
    (r"py:.*", r"jaxpool\.(\w+\.)*_.*"),  # private classes in signatures
    (r"py:.*", r".*[ \[].*"),  # unions, which the signature shows in full
    (r"py:.*", r"(Array|ArrayLike|Any|Callable|Sequence|Mapping|optional|module|key)"),
]
suppress_warnings = ["mystnb.unknown_mime_type"]

# --- Markdown and notebooks -----------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # a test runs the notebooks and compares what they print
nb_ipywidgets_js = {}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# --- the reference --------------------------------------------------------------------------------

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"

# --- the look -------------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"jaxpool {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b6e76",
        "color-brand-content": "#0b6e76",
        "font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
    },
    "dark_css_variables": {
        "color-brand-primary": "#4fd1c5",
        "color-brand-content": "#4fd1c5",
    },
    "top_of_page_buttons": [],
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
