"""How Sphinx builds these pages: `make docs`."""

from importlib import metadata

project = "Trunkline"
author = "the Trunkline authors"
release = version = metadata.version("trunkline")

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nitpicky = True
smartquotes = False

html_theme = "furo"
html_title = "Trunkline"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
