"""Where the boxes and lines of a drawn graph go: rows from top to bottom, straight columns.

The method is the layered one of Sugiyama, Tagawa and Toda (1981): give each box a row below all
that it comes from, put a waypoint wherever a line passes a row, order each row so that few lines
cross, then choose the columns after Brandes and Köpf (2001), who keep long lines straight.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise
from math import ceil, floor

__all__ = ["Layout", "Route", "layered"]

Point = tuple[float, float]

COLUMN_GAP = 28.0  # between boxes of a row
WAYPOINT_WIDTH = 4.0  # what a line that passes a row takes of it
SWEEPS = 12  # over all rows, to find a good order
PATIENCE = 3  # sweeps that find nothing better before it is left at that


@dataclass
class Route:
    """The way of one line: the rows that it passes, as (x, top, bottom), from source to target."""

    source: int
    target: int
    passes: list[tuple[float, float, float]] = field(default_factory=list)


@dataclass
class Layout:
    """What :func:`layered` gives.

    Args:
        centers: the middle of each box.
        rows: (top, bottom) of the row that each box stands in.
        routes: one for each edge, in their order.
        width: of the whole; everything lies within 0 ... width.
        height: likewise.
    """

    centers: list[Point]
    rows: list[Point]
    routes: list[Route]
    width: float
    height: float


def layered(
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[tuple[int, int, int]],
    row_gap: float = 44.0,
) -> Layout:
    """Places boxes in rows.

    Args:
        sizes: width and height of each box. Boxes come in the order of a possible calculation:
            each edge leads from an earlier to a later one.
        edges: (source, port, target). Lines of the same source and port share their way as far as
            they can.
        row_gap: the space between two rows.

    Raises:
        ValueError: where an edge leads backward.

    >>> boxes = layered([(10, 10), (10, 10), (10, 10)], [(0, 0, 1), (1, 0, 2)], row_gap=20)
    >>> boxes.centers, boxes.height
    ([(5.0, 5.0), (5.0, 35.0), (5.0, 65.0)], 70.0)
    """
    for source, _, target in edges:
        if source >= target:
            raise ValueError(f"layered: expected edges that lead forward, got {source} to {target}")
    rank = _ranks(len(sizes), edges)
    net = _Net(sizes, edges, rank)
    net.order()
    x = _columns(net)
    left = min((x[v] - net.width[v] / 2 for v in range(len(x))), default=0.0)
    right = max((x[v] + net.width[v] / 2 for v in range(len(x))), default=0.0)

    heights = [max((sizes[v][1] for v in row if v < len(sizes)), default=0.0) for row in net.rows]
    spans: list[Point] = []
    y = 0.0
    for height in heights:
        spans.append((y, y + height))
        y += height + row_gap
    centers = [(x[v] - left, sum(spans[rank[v]]) / 2) for v in range(len(sizes))]
    routes = [
        Route(source, target, [(x[w] - left, *spans[net.rank[w]]) for w in way])
        for (source, _, target), way in zip(edges, net.ways, strict=True)
    ]
    return Layout(
        centers=centers,
        rows=[spans[r] for r in rank],
        routes=routes,
        width=right - left,
        height=max(y - row_gap, 0.0),
    )


def _ranks(count: int, edges: Sequence[tuple[int, int, int]]) -> list[int]:
    """A row for each box: below all that it comes from; what comes from nothing, near its use."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, _, target in edges:
        before[target].append(source)
        after[source].append(target)
    rank = [0] * count
    for v in range(count):
        rank[v] = max((rank[u] + 1 for u in before[v]), default=0)
    for v in range(count):
        if not before[v] and after[v]:
            rank[v] = min(rank[w] for w in after[v]) - 1
    lowest = min(rank, default=0)
    return [r - lowest for r in rank]


class _Net:
    """Boxes and waypoints in rows; every link leads from a row to the next one."""

    def __init__(
        self,
        sizes: Sequence[tuple[float, float]],
        edges: Sequence[tuple[int, int, int]],
        rank: Sequence[int],
    ) -> None:
        self.boxes = len(sizes)
        self.width = [w for w, _ in sizes]
        self.rank = list(rank)
        self.ways: list[list[int]] = []  # by edge: its waypoints
        links: dict[tuple[int, int], None] = {}
        waypoints: dict[tuple[int, int, int], int] = {}
        for source, port, target in edges:
            way = []
            at = source
            for r in range(rank[source] + 1, rank[target]):
                w = waypoints.get((source, port, r))
                if w is None:
                    w = waypoints[source, port, r] = len(self.rank)
                    self.rank.append(r)
                    self.width.append(WAYPOINT_WIDTH)
                links[at, w] = None
                way.append(w)
                at = w
            links[at, target] = None
            self.ways.append(way)
        count = len(self.rank)
        self.above: list[list[int]] = [[] for _ in range(count)]
        self.below: list[list[int]] = [[] for _ in range(count)]
        for a, b in links:
            self.below[a].append(b)
            self.above[b].append(a)
        self.rows: list[list[int]] = [[] for _ in range(max(self.rank, default=-1) + 1)]
        for v in self._depth_first():
            self.rows[self.rank[v]].append(v)
        self.place = [0] * count  # in its row
        self._number(self.rows)

    def _depth_first(self) -> Iterator[int]:
        """All boxes and waypoints, branch after branch: a first order with few crossings."""
        seen = [False] * len(self.rank)
        for start in range(len(self.rank)):
            stack = [start] if not self.above[start] else []
            while stack:
                v = stack.pop()
                if not seen[v]:
                    seen[v] = True
                    yield v
                    stack.extend(reversed(self.below[v]))

    def _number(self, rows: Iterable[list[int]]) -> None:
        for row in rows:
            for i, v in enumerate(row):
                self.place[v] = i

    def order(self) -> None:
        """Sorts each row by the middle of its neighbours above, then below, in turns."""
        best, fewest, found = [list(row) for row in self.rows], self._crossings(), -1
        for sweep in range(SWEEPS):
            if fewest == 0 or sweep - found > PATIENCE:
                break
            down = sweep % 2 == 0
            neighbours = self.above if down else self.below
            for row in self.rows if down else reversed(self.rows):
                middle = {
                    v: sum(self.place[u] for u in near) / len(near) if near else self.place[v]
                    for v in row
                    for near in [neighbours[v]]
                }
                row.sort(key=middle.__getitem__)
                self._number([row])
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest, found = [list(row) for row in self.rows], crossings, sweep
        self.rows = best
        self._number(self.rows)

    def _crossings(self) -> int:
        total = 0
        for row in self.rows[1:]:
            passed: list[int] = []  # places in the row above of links further left, sorted
            for v in row:
                ends = sorted(self.place[u] for u in self.above[v])
                total += sum(len(passed) - bisect_right(passed, end) for end in ends)
                for end in ends:
                    insort(passed, end)
        return total


# ---- columns, after Brandes and Köpf ------------------------------------------------------------


def _columns(net: _Net) -> list[float]:
    """The x of each box and waypoint: the middle of four placements.

    Each of the four aligns boxes with their upper or lower neighbours, and leans to one side.
    """
    crossed = _crossed_lines(net)
    placements = []
    for down in (True, False):
        for left in (True, False):
            rows = [row if left else row[::-1] for row in (net.rows if down else net.rows[::-1])]
            near = net.above if down else net.below
            root = _aligned(rows, near, crossed)
            x = _packed(rows, root, net.width)
            placements.append(x if left else [-v for v in x])
    if not net.rank:
        return []
    extents = [
        (
            min(v - w / 2 for v, w in zip(x, net.width, strict=True)),
            max(v + w / 2 for v, w in zip(x, net.width, strict=True)),
        )
        for x in placements
    ]
    low, high = min(extents, key=lambda extent: extent[1] - extent[0])
    for i, (x, (first, last)) in enumerate(zip(placements, extents, strict=True)):
        # Those that lean left are laid on the left edge of the narrowest one, the others right.
        shift = low - first if i % 2 == 0 else high - last
        placements[i] = [v + shift for v in x]
    return [sum(sorted(four)[1:3]) / 2 for four in zip(*placements, strict=True)]


def _crossed_lines(net: _Net) -> set[tuple[int, int]]:
    """The links that cross a link between two waypoints: such a long line is to stay straight."""
    crossed = set()
    for row in net.rows[1:]:
        inner = sorted(
            (net.place[u], net.place[v])
            for v in row
            if v >= net.boxes
            for u in net.above[v]
            if u >= net.boxes
        )
        for v in row:
            for u in net.above[v]:
                if u >= net.boxes and v >= net.boxes:
                    continue
                a, b = net.place[u], net.place[v]
                if any((a - c) * (b - d) < 0 for c, d in inner):
                    crossed.add((u, v))
    return crossed


def _aligned(
    rows: Sequence[Sequence[int]], near: Sequence[list[int]], crossed: set[tuple[int, int]]
) -> list[int]:
    """By box, the first one of the vertical chain that it belongs to."""
    place = {v: i for row in rows for i, v in enumerate(row)}
    root = list(range(len(near)))
    taken: set[int] = set()  # those that go on in a later row
    for row in rows:
        last = -1
        for v in row:
            around = sorted(near[v], key=place.__getitem__)
            middle = (len(around) - 1) / 2
            for i in sorted({floor(middle), ceil(middle)}) if around else ():
                u = around[i]
                free = (u, v) not in crossed and (v, u) not in crossed
                if root[v] == v and free and last < place[u] and u not in taken:
                    root[v] = root[u]
                    taken.add(u)
                    last = place[u]
    return root


def _packed(
    rows: Sequence[Sequence[int]], root: Sequence[int], width: Sequence[float]
) -> list[float]:
    """The x of each box: chains as far left as others allow, then right where there is room."""
    before: dict[int, dict[int, float]] = {r: {} for r in root}
    after: dict[int, dict[int, float]] = {r: {} for r in root}
    for row in rows:
        for a, b in pairwise(row):
            apart = (width[a] + width[b]) / 2 + COLUMN_GAP
            ra, rb = root[a], root[b]
            before[rb][ra] = after[ra][rb] = max(before[rb].get(ra, 0.0), apart)
    order = list(TopologicalSorter({r: list(b) for r, b in before.items()}).static_order())
    x: dict[int, float] = {}
    for r in order:
        x[r] = max((x[u] + apart for u, apart in before[r].items()), default=0.0)
    for r in reversed(order):
        if after[r]:
            x[r] = max(x[r], min(x[u] - apart for u, apart in after[r].items()))
    return [x[r] for r in root]
