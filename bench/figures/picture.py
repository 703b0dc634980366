"""The picture of a run: what one core mirrors, by batch size, against the limit. SVG, without a library.

A point is a dictionary: `batch_bytes`; `ours` and `reference` in GB per CPU second, the medians of a run;
`low` and `high`, the range of their ratio over the rounds, or None. Ratios are what a round compares, so the
bar at a point goes from `low` to `high` times the reference.
"""
import math
import re
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 800, 480
LEFT, RIGHT, TOP, BOTTOM = 76, 28, 92, 68  # around the plot
TITLE = "Bytes mirrored per CPU second of the fetcher, by batch size"
OURS, REFERENCE = "kmirror", "limit: a loop that receives, checks and writes"
COLOURS = {OURS: "#1b62b5", REFERENCE: "#c2571a"}
INK, FAINT, PAPER = "#22272e", "#d9dde2", "#fbfbf9"
FONT = "font-family='Helvetica, Arial, sans-serif'"


def points_of(rows):
    """The points among the rows of a run: figures named mirror-<size>k or mirror-<size>m, smallest first."""
    points = {}
    for row in rows:
        match = re.fullmatch(r"mirror-(\d+)([km])", row.figure)
        if match and row.ours is not None and row.reference is not None:
            size = int(match.group(1)) << {"k": 10, "m": 20}[match.group(2)]
            points[size] = {"batch_bytes": size, "ours": row.ours, "reference": row.reference,
                            "low": row.low, "high": row.high}
    return [points[size] for size in sorted(points)]


def size_text(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size / (1 << shift):g} {unit}"
    return f"{size} B"


def nice_step(top, most):
    """The smallest of 1, 2, 2.5, 5 times a power of ten that divides 0..top into at most `most` steps."""
    power = 10.0 ** math.floor(math.log10(top / most))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power * most >= top * (1 - 1e-9))


class Plot:
    """Where a point is on the page: sizes by their logarithm, rates from zero."""

    def __init__(self, points):
        sizes = [math.log2(point["batch_bytes"]) for point in points]
        self.left, self.span = min(sizes) - 0.5, max(sizes) - min(sizes) + 1
        tallest = max(value for point in points for value in (point["ours"], point["reference"], *bar_of(point)))
        self.step = nice_step(tallest, 8)
        self.top = self.step * math.ceil(tallest / self.step + 0.02)

    def x(self, size):
        return LEFT + (math.log2(size) - self.left) / self.span * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)


def bar_of(point):
    """The ends of a point's bar; none without a range."""
    if point["low"] is None or point["high"] is None:
        return ()
    return point["low"] * point["reference"], point["high"] * point["reference"]


def svg(points):
    """The picture as text. At least one point."""
    if not points:
        raise ValueError("no points to draw")
    plot = Plot(points)
    lines = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' "
             f"viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>",
             f"<title>{escape(TITLE)}</title>",
             f"<rect width='{WIDTH}' height='{HEIGHT}' fill='{PAPER}'/>",
             text(LEFT, 30, TITLE, 17, anchor="start", weight="bold")]
    lines += axes(plot, points) + legend()
    for name, field, dashes in ((REFERENCE, "reference", " stroke-dasharray='7 5'"), (OURS, "ours", "")):
        colour = COLOURS[name]
        places = [(plot.x(point["batch_bytes"]), plot.y(point[field])) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        lines.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2.5'{dashes}/>")
        if name == OURS:
            lines += [bar(plot, point, colour) for point in points if bar_of(point)]
        lines += [mark(name, x, y) for x, y in places]
    return "\n".join(lines + ["</svg>"]) + "\n"


def axes(plot, points):
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    lines = []
    for number in range(round(plot.top / plot.step) + 1):
        value = number * plot.step
        y = plot.y(value)
        lines.append(line(LEFT, y, right, y, INK if number == 0 else FAINT, 1))
        lines.append(text(LEFT - 9, y + 5, f"{value:g}", 14, anchor="end"))
    for point in points:
        x = plot.x(point["batch_bytes"])
        lines.append(line(x, bottom, x, bottom + 6, INK, 1))
        lines.append(text(x, bottom + 24, size_text(point["batch_bytes"]), 14))
    lines.append(text((LEFT + right) / 2, HEIGHT - 16, "batch size (logarithmic)", 14))
    middle = (TOP + bottom) / 2
    lines.append(text(22, middle, "GB per CPU second", 14, turn=f" transform='rotate(-90 22 {middle:g})'"))
    return lines


def legend():
    lines, x = [], LEFT
    for name, dashes in ((OURS, ""), (REFERENCE, " stroke-dasharray='7 5'")):
        lines.append(line(x, 58, x + 44, 58, COLOURS[name], 2.5, dashes))
        lines.append(mark(name, x + 22, 58))
        lines.append(text(x + 52, 63, name, 14, anchor="start"))
        x += 150
    lines.append(text(WIDTH - RIGHT, 63, "bars: range over the rounds", 13, anchor="end"))
    return lines


def bar(plot, point, colour):
    x = plot.x(point["batch_bytes"])
    low, high = (plot.y(value) for value in bar_of(point))
    ends = "".join(f"M{x - 5:.1f},{y:.1f}h10" for y in (low, high))
    return f"<path class='bar' d='M{x:.1f},{low:.1f}V{high:.1f}{ends}' stroke='{colour}' stroke-width='1.5'/>"


def mark(name, x, y):
    if name == OURS:
        return f"<circle class='ours' cx='{x:.1f}' cy='{y:.1f}' r='5' fill='{COLOURS[name]}'/>"
    return (f"<rect class='reference' x='{x - 4.5:.1f}' y='{y - 4.5:.1f}' width='9' height='9' "
            f"fill='{PAPER}' stroke='{COLOURS[name]}' stroke-width='2'/>")


def line(x1, y1, x2, y2, colour, width, more=""):
    return (f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' "
            f"stroke-width='{width}'{more}/>")


def text(x, y, content, size, anchor="middle", weight="normal", turn=""):
    return (f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' font-weight='{weight}' "
            f"text-anchor='{anchor}' fill='{INK}'{turn}>{escape(content)}</text>")
