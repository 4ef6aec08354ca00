"""Charts by matplotlib, an extra that is loaded late: what they have in common, and how one becomes SVG."""

from __future__ import annotations

import html
import io
import re
import textwrap
import warnings
from typing import TYPE_CHECKING, Final

from gpuprov.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIMULATED: Final = "SIMULATED"
INK, LINE = "#16181d", "#c3c7cf"  # of words and of the grid; a page puts its own in their place
# Told apart on white and on black
COLOURS: Final = ("#3b82c4", "#e07b1a", "#2f9e60", "#b565c9", "#b58a00", "#d6467e", "#1fa2b8", "#8a6d5c")
SMALL: Final = 8
_CHARACTERS: Final = 11.5  # of a title, in an inch
_LABEL: Final = 30
_UNUSED_ID: Final = re.compile(r' id="[A-Za-z0-9.]+_\d+"')
_STYLE: Final = {
    "axes.axisbelow": True,
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.constrained_layout.h_pad": 0.1,
    "figure.constrained_layout.w_pad": 0.1,
    "font.size": SMALL,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "gpuprov",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.color": LINE,
    "ytick.labelcolor": INK,
}


def draw(paint: Callable[[Figure], None], *, width: float, height: float) -> str:
    """An SVG on white, of which nothing is cut.

    Args:
        paint: Adds axes and what is in them.
        width: In inches.
        height: In inches.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    file = io.StringIO()
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that a font lacks, and of numbers near the end of all numbers
        mpl.rcdefaults()  # whatever the user's own settings are
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
        paint(figure)
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return _UNUSED_ID.sub("", file.getvalue())


def put_in_page(svg: str, label: str) -> str:
    """An SVG as an element of a page whose colours it takes; the label is for whoever cannot see it."""
    element = svg[svg.index("<svg ") :]
    named = element.replace("<svg ", f'<svg role="img" aria-label="{html.escape(printable(label, lines=False))}" ', 1)
    return (
        named.replace("fill: #ffffff", "fill: none", 1).replace(INK, "currentColor").replace(LINE, "var(--line)")
    )  # the first white is that of the paper


def set_title(axes: Axes, text: str, *, simulated: bool = False) -> None:
    """A title in as many lines as it needs."""
    words = f"{text} {SIMULATED}" if simulated else text
    width = axes.figure.bbox.width / axes.figure.dpi
    axes.set_title(textwrap.fill(printable(words, lines=False), int(width * _CHARACTERS)))


def put_legend(axes: Axes, title: str = "") -> None:
    """What the colours mean, beside the chart, so that it hides no point."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles, [_shown(label) for label in labels], title=_shown(title), loc="upper left",
            bbox_to_anchor=(1.01, 1), borderaxespad=0, alignment="left",
        )  # fmt: skip


def label_axes(axes: Axes, across: str, up: str) -> None:
    """What the two axes are."""
    axes.set_xlabel(_shown(across))
    axes.set_ylabel(_shown(up))


def _shown(text: str) -> str:
    return textwrap.fill(printable(text, lines=False), _LABEL)
