"""Sphinx: `make docs` writes the pages to out/docs."""

from megengine.version import __version__

project = "OpenMGE"
author = "the OpenMGE authors"
release = version = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
html_theme = "alabaster"
html_theme_options = {"description": "MegEngine's API on today's Python", "page_width": "1100px"}
autodoc_member_order = "bysource"
autodoc_typehints = "description"
myst_heading_anchors = 3
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
}
