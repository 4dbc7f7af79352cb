"""One figure of a report: the picture, the numbers behind it, and what it shows in words."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Exhibit:
    """- `name`: of its files, NAME.png and data/NAME.json, or data/NAME.npz if `data` holds arrays.
    - `alt`: what is seen, for those who do not see it.
    """

    name: str
    title: str
    figure: "Figure | None"
    data: dict[str, Any]
    caption: str
    alt: str
    arrays: bool = False


COLOURS = {"hard": "#0072B2", "soft": "#D55E00"}
MARKERS = {"hard": "o", "soft": "s"}
