"""Formulas as MathML, which browsers render without a script."""

import re
from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

# |||: one sign, not three relations with space around each
BAR = re.compile(r"(?:<mo[^>]*>\|</mo>\s*){3}")


def to_mathml(tex: str, as_block: bool = False) -> str:
    """Return a formula of LaTeX as MathML."""
    return BAR.sub('<mo lspace="0" rspace="0">|||</mo>', tex2mathml(tex, as_block=as_block))


def _inline(writer: Any, node: Any) -> None:
    writer.body.append(to_mathml(node.astext()))
    raise SkipNode


def _display(writer: Any, node: Any) -> None:
    writer.body.append(f'<div class="formula">{to_mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
