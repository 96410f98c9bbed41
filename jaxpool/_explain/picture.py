"""The picture of a geometry; needs matplotlib, the ``plot`` extra."""

import os
from collections.abc import Sequence
from typing import Any

from matplotlib import patches
from matplotlib.figure import Figure

from .._errors import message, shown
from .._geometry.arguments import per_axis
from .._geometry.axis import Axis
from .._geometry.resolve import Geometry

LONGEST = 40
"""Maximum length of the part of an axis that is drawn, from its start, in elements."""
LONGEST_WINDOW = 200
"""The same for an axis whose window is longer than ``LONGEST``: the window is cut there."""

COLOURS = {"element": "#9ecae1", "padding": "#e0e0e0", "overhang": "#fdd0a2", "window": "#08519c"}
CHOSEN = "#d62728"


def draw(
    geometry: Geometry, rank: int, title: str, path: Any, window: Sequence[int] | None
) -> Figure:
    """Return a figure with one panel per pooled axis, written to ``path`` unless that is None."""
    axes = geometry.axes
    heights = [_windows_shown(axis) for axis in axes]
    middle = [height // 2 for height in heights]
    chosen = per_axis("window", middle if window is None else window, len(axes), least=0)
    _check_is_drawn(chosen, axes, heights)
    figure = Figure(figsize=(10, 1.6 * len(axes) + 0.22 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(axes), 1, squeeze=False, height_ratios=[3 + h for h in heights])
    for panel, axis, position, choice in zip(
        panels[:, 0], axes, geometry.positions, chosen, strict=True
    ):
        _draw_axis(panel, axis, choice)
        title_of_axis = f"axis {rank + position}: {axis.size} elements, {axis.out} windows"
        panel.set_title(title_of_axis, loc="left")
    figure.suptitle(title)
    _add_legend(figure)
    if path is not None:
        _save(figure, path)
    return figure


def _save(figure: Figure, path: Any) -> None:
    """Write the figure; raise if matplotlib or the system cannot write ``path``."""
    try:
        is_name = isinstance(path, (str, os.PathLike))  # or an open file
        if is_name and os.path.isdir(path):  # matplotlib would add a suffix
            raise IsADirectoryError("it is a directory")
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise ValueError(
            message(
                f"$path = {shown(path)} cannot be written.",
                f"The reason is: {getattr(error, 'strerror', None) or error}.",
                "Give a file such as out.png or out.svg.",
            )
        ) from error


def _check_is_drawn(chosen: Sequence[int], axes: Sequence[Axis], heights: Sequence[int]) -> None:
    """Raise unless the picture shows the chosen window of each axis."""
    for index, (choice, axis, height) in enumerate(zip(chosen, axes, heights, strict=True)):
        if choice >= height:
            raise ValueError(
                message(
                    f"$window = {choice} is not in the picture of pooled axis {index}.",
                    f"The picture shows windows 0 to {height - 1} of {axis.out} on this axis.",
                    "Give the index of one of them.",
                )
            )


def _windows_shown(axis: Axis) -> int:
    return max(min(axis.out, (LONGEST - axis.span) // axis.stride + 1), 1)


def _draw_axis(panel: Any, axis: Axis, chosen: int) -> None:
    """Draw the padded axis as squares in a row, and below it each window as a bar with its taps."""
    windows = _windows_shown(axis)
    first, last = -axis.pad_low, axis.size + axis.pad_high + axis.overhang
    drawn = min(last, first + max(LONGEST, min(axis.span, LONGEST_WINDOW)))
    for q in range(first, drawn):
        kind = "element" if 0 <= q < axis.size else "padding"
        kind = "overhang" if q >= axis.size + axis.pad_high else kind
        square = patches.Rectangle((q, 0.4), 1, 1, facecolor=COLOURS[kind], edgecolor="white")
        panel.add_patch(square)
    for window in range(windows):
        colour = CHOSEN if window == chosen else COLOURS["window"]
        _draw_window(panel, axis, window, colour, drawn)
    cut = "  ..." if drawn < last or windows < axis.out else ""
    panel.text(drawn + 0.3, 0.9, f"{axis.size} elements{cut}", va="center", fontsize=8)
    panel.set_xlim(first - 0.5, drawn + 6)
    panel.set_ylim(-windows - 0.6, 1.8)
    panel.set_xticks([q + 0.5 for q in range(0, min(axis.size, drawn), 5)])
    panel.set_xticklabels([str(q) for q in range(0, min(axis.size, drawn), 5)])
    panel.set_yticks([])
    panel.spines[:].set_visible(False)


def _draw_window(panel: Any, axis: Axis, window: int, colour: str, end: int) -> None:
    """Draw the part of a window before ``end``."""
    start, height = axis.start(window), -window - 0.5
    span = min(axis.span, end - start)
    bar = patches.Rectangle((start, height - 0.35), span, 0.7, facecolor=colour, alpha=0.2)
    panel.add_patch(bar)
    for q in range(start, start + span, axis.dilation):
        is_element = 0 <= q < axis.size
        panel.plot(q + 0.5, height, "o", ms=5, mec=colour, mfc=colour if is_element else "white")
    panel.text(start - 0.2, height, str(window), ha="right", va="center", fontsize=7, color=colour)


def _add_legend(figure: Figure) -> None:
    labels = {
        COLOURS["element"]: "element",
        COLOURS["padding"]: "padding",
        COLOURS["overhang"]: "overhang (ceil rounding)",
        CHOSEN: "chosen window; dots: taps, hollow: outside the array",
    }
    boxes = [patches.Patch(color=colour, label=label) for colour, label in labels.items()]
    figure.legend(handles=boxes, loc="outside lower center", ncols=len(boxes), fontsize=8)
