"""Diagrams as SVG text."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from .diagram import Box, Diagram, kind_of
from .layout import Layout, Route, layered

__all__ = ["to_svg"]

# By kind: the colour, and what it is called.
KINDS = {
    "input": ("#30363d", ""),
    "output": ("#30363d", ""),
    "contraction": ("#2f6db3", "convolutions, products"),
    "normalisation": ("#1f8a7d", "normalisation"),
    "activation": ("#c4512d", "activations"),
    "arithmetic": ("#b7791f", "arithmetic"),
    "reduction": ("#4d8b31", "pooling, reductions"),
    "shape": ("#6b7280", "shapes"),
    "indexing": ("#7a55a8", "indexing"),
    "source": ("#a8478c", "new values"),
}
FONT = "'Segoe UI', 'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif"
TITLE_SIZE, DETAIL_SIZE, LABEL_SIZE = 12.0, 10.0, 9.5
TITLE_ROW, DETAIL_ROW = 22.0, 14.0
PART_GAP = 3.0  # around the strips of a fused op
MOST_PARTS = 12  # of a fused op that are shown
PADDING = 10.0  # left and right of text in a box
LABEL_OFFSET = 5.0  # from a line to the text beside it
ROW_GAP = 46.0
STUB = 14.0  # the first, straight piece of a line, beside which a label stands
TIP = 7.0  # the last one, under its arrow head
MARGIN = 24.0
MOST_LETTERS = 40  # of a line in a box


def _text_width(text: str, size: float, bold: bool = False) -> float:
    """How wide text is, by the letters of a wide font: in narrower ones it has room to spare."""
    width = 0.0
    for letter in text:
        if letter in "ijlI.,:;|'!()[] ":
            width += 0.38
        elif letter in "mwMW@%—…":
            width += 0.98
        elif letter.isupper() or ord(letter) > 0x2E80:
            width += 0.75 if ord(letter) < 0x2E80 else 1.05
        else:
            width += 0.64
    return width * size * (1.1 if bold else 1.0)


def _clipped(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


@dataclass
class _Shape:
    """The lines of a box and its size."""

    strips: list[str]
    details: list[str]
    width: float
    height: float
    column: float  # the width that it takes of its row, with the text beside its line


def _labels(diagram: Diagram) -> list[str]:
    """What stands beside the lines that leave a box: the shapes of what others take from it."""
    used: list[set[int]] = [set() for _ in diagram.boxes]
    for box in diagram.boxes:
        for source, port in box.inputs:
            used[source].add(port)
    return [
        _clipped(", ".join(dict.fromkeys(box.outputs[port] for port in sorted(ports))))
        for box, ports in zip(diagram.boxes, used, strict=True)
    ]


def _shape(box: Box, label: str) -> _Shape:
    strips = [_clipped(t) for t in box.parts or [box.title]]
    if len(strips) > MOST_PARTS:
        strips[MOST_PARTS - 1 :] = [f"{len(strips) - MOST_PARTS + 1} more"]
    details = [_clipped(t) for t in box.details]
    width = max(
        56.0,
        *(_text_width(t, TITLE_SIZE, bold=True) + 2 * PADDING for t in strips),
        *(_text_width(t, DETAIL_SIZE) + 2 * PADDING for t in details),
    )
    height = TITLE_ROW * len(strips) + (DETAIL_ROW * len(details) + 6 if details else 0)
    height += 2 * PART_GAP if box.parts else 0
    column = max(width, 2 * (LABEL_OFFSET + _text_width(label, LABEL_SIZE)))
    return _Shape(strips, details, width, height, column)


def to_svg(diagram: Diagram) -> str:
    """A diagram as an SVG document. All text in it is escaped.

    >>> from megengine.tools.diagram import Box, Diagram
    >>> boxes = [Box("x", "input", outputs=["2×3"]), Box("a<b", "arithmetic", inputs=[(0, 0)])]
    >>> svg = to_svg(Diagram(boxes))
    >>> svg.startswith("<svg"), "a&lt;b" in svg
    (True, True)
    """
    labels = _labels(diagram)
    shapes = [_shape(box, label) for box, label in zip(diagram.boxes, labels, strict=True)]
    edges = [
        (source, port, i) for i, box in enumerate(diagram.boxes) for source, port in box.inputs
    ]
    layout = layered([(s.column, s.height) for s in shapes], edges, ROW_GAP)
    met = {box.kind for box in diagram.boxes if not box.parts}
    met |= {kind_of(part) for box in diagram.boxes for part in box.parts}
    legend = [(colour, said) for kind, (colour, said) in KINDS.items() if kind in met and said]
    head = _Head(diagram.title, diagram.summary, legend)
    width = max(layout.width, head.width) + 2 * MARGIN
    height = layout.height + head.height + 2 * MARGIN
    dx, dy = (width - layout.width) / 2, MARGIN + head.height
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}">',
        "<style>"
        ".edge{fill:none;stroke:#8b949e;stroke-width:1.4}"
        f".label{{font-size:{LABEL_SIZE}px;fill:#57606a}}"
        f".title{{font-size:{TITLE_SIZE}px;font-weight:bold;fill:#fff;text-anchor:middle}}"
        f".detail{{font-size:{DETAIL_SIZE}px;fill:#24292f;text-anchor:middle}}"
        "</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="6.5" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 1L7 4L0 7z" fill="#8b949e"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>',
        head.svg(MARGIN, MARGIN),
        f'<g transform="translate({dx:.1f} {dy:.1f})">',
        *_edges(shapes, layout),
        *(_box(box, shapes[i], *layout.centers[i]) for i, box in enumerate(diagram.boxes)),
        *(_beside(labels[i], shapes[i], *layout.centers[i]) for i in range(len(labels))),
        "</g>",
        "</svg>",
    ]
    return "\n".join(p for p in parts if p) + "\n"


class _Head:
    """Title, summary and the meaning of the colours."""

    def __init__(self, title: str, summary: str, legend: list[tuple[str, str]]) -> None:
        self.title, self.summary, self.legend = title, summary, legend
        self.widths = [_text_width(said, DETAIL_SIZE) + 32 for _, said in legend]
        self.width = max(
            _text_width(title, 16, bold=True), _text_width(summary, 11), sum(self.widths)
        )
        self.height = 26.0 * bool(title) + 20 * bool(summary) + 24 * bool(legend)
        self.height += 16 if self.height else 0

    def svg(self, x: float, y: float) -> str:
        out = []
        if self.title:
            out.append(
                f'<text x="{x}" y="{y + 14}" font-size="16" font-weight="bold" fill="#24292f">'
                f"{escape(self.title)}</text>"
            )
            y += 26
        if self.summary:
            out.append(
                f'<text x="{x}" y="{y + 10}" font-size="11" fill="#57606a">'
                f"{escape(self.summary)}</text>"
            )
            y += 20
        for (colour, said), width in zip(self.legend, self.widths, strict=True):
            out.append(
                f'<rect x="{x:.1f}" y="{y + 2}" width="12" height="12" rx="3" '
                f'fill="{colour}"/>'
                f'<text x="{x + 17:.1f}" y="{y + 12}" font-size="{DETAIL_SIZE}" fill="#57606a">'
                f"{said}</text>"
            )
            x += width
        return "\n".join(out)


def _box(box: Box, shape: _Shape, x: float, y: float) -> str:
    """A box with its title on a coloured strip, or a strip for each part, above the details."""
    colour = KINDS[box.kind][0]
    left, top = x - shape.width / 2, y - shape.height / 2
    pill = box.kind in ("input", "output") and not shape.details
    radius = TITLE_ROW / 2 if pill else 5
    solid = not (shape.details or box.parts)
    border = "#30363d" if box.parts else colour
    out = [
        f'<g class="node" data-kind="{box.kind}"><title>{escape(box.note)}</title>'
        f'<rect class="box" x="{left:.1f}" y="{top:.1f}" width="{shape.width:.1f}" '
        f'height="{shape.height:.1f}" rx="{radius}" fill="{colour if solid else "#fff"}" '
        f'stroke="{border}" stroke-width="{1.8 if box.parts else 1.2}"/>'
    ]
    if box.parts:
        for i, part in enumerate(shape.strips):
            out.append(
                f'<rect x="{left + 4:.1f}" y="{top + 4 + i * TITLE_ROW:.1f}" '
                f'width="{shape.width - 8:.1f}" height="{TITLE_ROW - 2}" rx="3" '
                f'fill="{KINDS[kind_of(part)][0]}"/>'
            )
    elif shape.details:
        out.append(
            f'<path d="M{left:.1f} {top + TITLE_ROW:.1f}v{5 - TITLE_ROW:.1f}q0 -5 5 -5'
            f'h{shape.width - 10:.1f}q5 0 5 5v{TITLE_ROW - 5:.1f}z" fill="{colour}"/>'
        )
    first = top + (PART_GAP if box.parts else 0)
    for i, text in enumerate(shape.strips):
        row = first + i * TITLE_ROW + 15
        out.append(f'<text class="title" x="{x:.1f}" y="{row:.1f}">{escape(text)}</text>')
    for i, text in enumerate(shape.details):
        row = first + TITLE_ROW * len(shape.strips) + 13 + i * DETAIL_ROW
        out.append(f'<text class="detail" x="{x:.1f}" y="{row:.1f}">{escape(text)}</text>')
    out.append("</g>")
    return "".join(out)


def _edges(shapes: list[_Shape], layout: Layout) -> list[str]:
    """The lines. Each goes straight through the rows that it passes and bends between rows."""
    arrivals: dict[int, list[Route]] = {}
    for route in layout.routes:
        arrivals.setdefault(route.target, []).append(route)
    out = []
    for target, routes in arrivals.items():
        ends = _arrival_places(routes, target, shapes, layout)
        for route, end in zip(routes, ends, strict=True):
            x, y = layout.centers[route.source]
            path = [f"M{x:.1f} {y + shapes[route.source].height / 2:.1f}"]
            bottom = layout.rows[route.source][1] + STUB
            for px, top, passed in route.passes:
                path += _bend(x, bottom, px, top)
                x, bottom = px, passed
            box_top = layout.centers[target][1] - shapes[target].height / 2
            path += _bend(x, bottom, end, layout.rows[target][0] - TIP)
            path.append(f"V{box_top:.1f}")
            out.append(f'<path class="edge" d="{"".join(path)}" marker-end="url(#tip)"/>')
    return out


def _arrival_places(
    routes: list[Route], target: int, shapes: list[_Shape], layout: Layout
) -> list[float]:
    """Where on the upper side of a box its lines end: side by side, in the order they come from."""
    center = layout.centers[target][0]
    starts = [r.passes[-1][0] if r.passes else layout.centers[r.source][0] for r in routes]
    order = sorted(range(len(routes)), key=starts.__getitem__)
    gap = min(16.0, (shapes[target].width - 20) / max(len(routes) - 1, 1))
    # A line from straight above stays straight, and the others end on their sides of it.
    straight = [i for i, r in enumerate(order) if abs(starts[r] - center) < 0.5]
    middle = straight[len(straight) // 2] if straight else (len(order) - 1) / 2
    if straight and len(order) > 1:
        room = (shapes[target].width / 2 - 8) / max(middle, len(order) - 1 - middle, 1)
        gap = min(gap, room)
    ends = [0.0] * len(routes)
    for i, r in enumerate(order):
        ends[r] = center + (i - middle) * gap
    return ends


def _bend(x: float, y: float, to_x: float, to_y: float) -> list[str]:
    if abs(x - to_x) < 0.05:
        return [f"V{to_y:.1f}"]
    half = (y + to_y) / 2
    return [f"V{y:.1f}C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}"]


def _beside(label: str, shape: _Shape, x: float, y: float) -> str:
    if not label:
        return ""
    x, y = x + LABEL_OFFSET, y + shape.height / 2 + LABEL_SIZE + 1
    return f'<text class="label" x="{x:.1f}" y="{y:.1f}">{escape(label)}</text>'
