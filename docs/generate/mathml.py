"""Formulas as MathML, which browsers draw by themselves: no script, nothing fetched from elsewhere."""

from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def _inline(writer: Any, node: Any) -> None:
    writer.body.append(tex2mathml(node.astext()))
    raise SkipNode


def _display(writer: Any, node: Any) -> None:
    writer.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
