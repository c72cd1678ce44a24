"""Sphinx: `make docs` writes the pages to out/docs."""

from megengine.version import __version__

project = "OpenMGE"
author = "the OpenMGE authors"
release = version = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
html_theme = "alabaster"
html_theme_options = {"description": "MegEngine's API on today's Python", "page_width": "1100px"}
autodoc_member_order = "bysource"
autodoc_typehints = "description"
myst_heading_anchors = 3
