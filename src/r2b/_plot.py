"""One look for every picture: colours that the colour-blind and a grey printer tell apart, quiet axes, round ticks, names that fit."""

from __future__ import annotations

from typing import Any, Final
from unicodedata import east_asian_width

from r2b.errors import require

# Okabe and Ito's colours, ordered so that neighbours also differ in lightness.
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6f6e68", "#000000")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
INK: Final = "#1a1a19"
QUIET: Final = "#52514e"
GRID: Final = "#e1e0d9"
STYLE: Final[dict[str, Any]] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": "#8f8e86",
    "axes.labelcolor": QUIET,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "figure.facecolor": "white",
}


def dress(ax: Any, grid: str = "both") -> None:
    """Make axes quiet: two spines, a light grid behind what is drawn, a title at the left.

    Parameters
    ----------
    ax : matplotlib Axes
    grid : {"both", "x", "y"}
    """
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=False)
    ax.grid(visible=True, axis=grid, color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(length=3, labelsize=10)


def shortened(name: str, most: int = 32) -> str:
    """Cut a name to so many columns of text, where a letter of Chinese, Japanese or Korean takes two.

    Examples
    --------
    >>> shortened("a name that is much too long to stand beside an axis", 20)
    'a name that is much…'
    >>> shortened("とても長い名前です", 10)
    'とても長…'
    """
    room = most
    for place, letter in enumerate(name):
        room -= 2 if east_asian_width(letter) in "WF" else 1
        if room < 0 or (room == 0 and place + 1 < len(name)):
            return f"{name[:place].rstrip()}…"
    return name


def pyplot(what: str) -> Any:
    """Import matplotlib's pyplot for what needs it.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    return require("matplotlib.pyplot", f"{what} needs matplotlib", extra="plot")
