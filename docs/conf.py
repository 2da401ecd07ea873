"""Configuration of the documentation; every warning is an error (make docs)."""

project = "regfactor"
author = "The regfactor developers"
copyright = f"2026, {author}"
extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
