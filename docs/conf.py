"""How Sphinx builds these pages: `make docs`."""

import re
from importlib import metadata
from typing import Any

project = "Trunkline"
author = "the Trunkline authors"
release = version = metadata.version("trunkline")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_default_options = {"members": True, "imported-members": True, "member-order": "bysource"}
add_module_names = False
default_role = "code"
napoleon_custom_sections = [("Options", "params_style")]
napoleon_use_ivar = True
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures, of Python, numpy and our inside
smartquotes = False

html_theme = "furo"
html_title = "Trunkline"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False


def setup(app: Any) -> None:
    """Write defaults without a readable form as `...`; protocols take no arguments."""

    def shorten(*arguments: Any) -> tuple[str, str] | None:
        signature, returned = arguments[-2:]
        if not signature:
            return None
        short = re.sub(r"<[^>]*>", "...", signature)
        return "" if short == "(*args, **kwargs)" else short, returned

    app.connect("autodoc-process-signature", shorten)
