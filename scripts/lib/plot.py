# SPDX-License-Identifier: GPL-2.0
"""Plots as SVG: panels side by side, both axes logarithmic, a line for each device."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 300, 220  # of what is inside a panel
LEFT, TOP, RIGHT, BOTTOM = 70, 50, 15, 45
LEGEND = 24
COLOURS = ("#1f5fa8", "#c4501b", "#5b8c2a", "#7a4a9e")


def human(value, unit=""):
    """4096 bytes: 4 KiB; 25000 of anything else: 25 k."""
    step, names = (1024, ("", "Ki", "Mi", "Gi")) if unit == "bytes" else (1000, ("", "k", "M", "G"))
    power = 0
    while value >= step and power < len(names) - 1:
        value, power = value / step, power + 1
    return f"{value:.3g} {names[power]}{'B' if unit == 'bytes' else ''}".rstrip()


def text(x, y, what, **attributes):
    """An SVG element for a line of text."""
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(what)}</text>'


class Axis:
    """Maps values to positions, with room at both ends up to a power of the base."""

    def __init__(self, values, base, pixels):
        self.base, self.pixels = base, pixels
        self.low = math.floor(math.log(min(values), base) + 1e-9)
        self.high = max(math.ceil(math.log(max(values), base) - 1e-9), self.low + 1)

    def at(self, value):
        """The position of a value, from the axis's beginning."""
        return self.pixels * (math.log(value, self.base) - self.low) / (self.high - self.low)

    def ticks(self):
        """Powers of the base, no more than fit."""
        stride = math.ceil((self.high - self.low) / 6)
        return [self.base ** power for power in range(self.low, self.high + 1, stride)]


def panel(title, lines, axes, units, colours):
    """The inside of a panel: @lines is {device: {size: value}}."""
    x, y = axes
    parts = [text(WIDTH / 2, -8, title, text_anchor="middle"),
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>']
    for value in x.ticks():
        parts.append(f'<path d="M{x.at(value):.1f},{HEIGHT}v4" stroke="#888"/>')
        parts.append(text(x.at(value), HEIGHT + 16, human(value, units[0]), text_anchor="middle"))
    for value in y.ticks():
        at = HEIGHT - y.at(value)
        parts.append(f'<path d="M0,{at:.1f}h{WIDTH}" stroke="#ddd"/>')
        parts.append(text(-6, at + 4, human(value), text_anchor="end"))
    parts.append(text(WIDTH / 2, HEIGHT + 32, units[0], text_anchor="middle"))
    for who, points in lines.items():
        places = [(x.at(size), HEIGHT - y.at(value)) for size, value in sorted(points.items())]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colours[who]}" stroke-width="1.6"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.4" fill="{colours[who]}"/>' for a, b in places]
    return parts


def plot(title, panels, units):
    """An SVG: @panels is {title: {device: {size: value}}}, @units those of sizes and of values."""
    whose = list(dict.fromkeys(who for lines in panels.values() for who in lines))
    colours = {who: COLOURS[i % len(COLOURS)] for i, who in enumerate(whose)}
    points = [point for lines in panels.values() for line in lines.values() for point in line.items()]
    axes = (Axis([size for size, _ in points], 4, WIDTH), Axis([value for _, value in points], 10, HEIGHT))
    wide, high = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    columns = min(len(panels), 3)
    size = columns * wide, -(-len(panels) // columns) * high + LEGEND
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
             'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="white"/>',
             text(LEFT, 20, f"{title}, {units[1]}", font_size=14, font_weight="bold")]
    for i, (name, lines) in enumerate(panels.items()):
        parts.append(f'<g transform="translate({LEFT + i % columns * wide},{TOP + i // columns * high})">')
        parts += panel(name, lines, axes, units, colours) + ["</g>"]
    for i, who in enumerate(whose):
        parts.append(text(LEFT + 90 * i, size[1] - 10, f"● {who}", fill=colours[who]))
    return "\n".join(parts) + "\n</svg>\n"
