"""Draws one picture of the miniature world from its factors: a scene, a creature with a patterned coat, and light.

Everything is analytic on a pixel grid (signed distances, soft edges one pixel wide), so a picture costs about two
milliseconds and has no assets. Reading order: `picture`, then scenes, silhouettes and coats.
"""

import numpy as np

from ask.datasets.factors import COLOURS

_SKY = {  # top and bottom of the backdrop, and the ground
    "meadow": ((0.52, 0.78, 0.97), (0.86, 0.95, 0.99), (0.42, 0.70, 0.30)),
    "desert": ((0.98, 0.88, 0.62), (0.99, 0.95, 0.80), (0.87, 0.70, 0.42)),
    "snow": ((0.78, 0.86, 0.95), (0.92, 0.95, 0.99), (0.96, 0.97, 1.00)),
    "sea": ((0.62, 0.83, 0.95), (0.85, 0.94, 0.97), (0.10, 0.43, 0.70)),
    "night": ((0.03, 0.04, 0.16), (0.14, 0.13, 0.34), (0.07, 0.08, 0.17)),
    "forest": ((0.10, 0.24, 0.14), (0.26, 0.44, 0.24), (0.16, 0.25, 0.12)),
    "sunset": ((0.46, 0.24, 0.52), (0.99, 0.62, 0.33), (0.34, 0.18, 0.30)),
    "city": ((0.62, 0.68, 0.76), (0.82, 0.84, 0.88), (0.42, 0.43, 0.47)),
}


def picture(row, rng: np.random.Generator, size: int = 96) -> np.ndarray:  # (size, size, 3) uint8
    """The picture that the factors of ``row`` describe; ``rng`` places only what no factor names (clouds, grain)."""
    pixel = 2 / size
    axis = (np.arange(size, dtype=np.float32) + 0.5) * pixel - 1
    x, y = np.meshgrid(axis, axis)  # (size, size), x to the right, y down, in [-1, 1]
    canvas = _scene(row.background, x, y, pixel, rng)

    angle = float(np.radians(row.rotation))
    dx, dy = (x - row.x) / row.scale, (y - row.y) / row.scale
    cos, sin = float(np.cos(angle)), float(np.sin(angle))
    u, v = cos * dx + sin * dy, cos * dy - sin * dx
    u = -u if row.flip else u
    soft = row.scale / pixel  # pixels per body unit: turns a distance into coverage

    base, accent = (np.array(COLOURS[c], np.float32) for c in (row.colour, row.accent))
    shadow = 1 - dx**2 - ((dy - 1.12) / 0.22) ** 2
    canvas = canvas * (1 - 0.35 * np.clip(shadow, 0, 1))[..., None]
    canvas = _limbs(canvas, row, u, v, soft)
    canvas = _lobes(canvas, row, u, v, soft, accent)
    canvas = _body(canvas, row, u, v, dx, dy, soft, base, accent)

    shade = np.array([1 + 0.20 * row.warmth, 1 + 0.02 * row.warmth, 1 - 0.20 * row.warmth], np.float32)
    canvas = canvas * shade * row.brightness * (1.02 - 0.10 * (x * x + y * y))[..., None]
    canvas = canvas + 0.012 * rng.standard_normal(canvas.shape, np.float32)
    return (np.clip(canvas, 0, 1) * 255 + 0.5).astype(np.uint8)


def _over(canvas, coverage, colour):  # paint colour (3,) or (h, w, 3) where coverage (h, w) in [0, 1]
    canvas += np.clip(coverage, 0, 1).astype(np.float32)[..., None] * (colour - canvas)
    return canvas


def _scene(scene, x, y, pixel, rng):  # (h, w, 3)
    top, bottom, ground = (np.array(c, np.float32) for c in _SKY[scene])
    fade = np.clip((y + 1) / 1.4, 0, 1)[..., None]
    canvas = top * (1 - fade) + bottom * fade
    phase, horizon = rng.uniform(0, 2 * np.pi), rng.uniform(0.15, 0.35)
    hills = y - horizon - 0.10 * np.sin(2.3 * x + phase) - 0.04 * np.sin(5.1 * x + 2 * phase)
    if scene in ("meadow", "desert", "sunset", "sea"):  # a sun, or its reflection's source
        cx, cy = rng.uniform(-0.8, 0.8), horizon if scene == "sunset" else rng.uniform(-0.85, -0.55)
        radius = 0.30 if scene == "sunset" else 0.15
        canvas = _over(
            canvas, (radius - np.hypot(x - cx, y - cy)) / pixel, np.array((1.0, 0.93, 0.62), np.float32)
        )
    if scene == "night":
        canvas = _dots(canvas, x, y, pixel, rng, 26, 0.022, (0.98, 0.97, 0.85))
        cx, cy = rng.uniform(-0.8, 0.8), -0.7
        moon = np.minimum(0.19 - np.hypot(x - cx, y - cy), np.hypot(x - cx - 0.09, y - cy + 0.05) - 0.16)
        canvas = _over(canvas, moon / pixel, np.array((0.97, 0.95, 0.80), np.float32))
    if scene == "forest":
        trunks = np.max([0.075 - np.abs(x[0] - cx) for cx in rng.uniform(-1, 1, 5).tolist()], axis=0)
        canvas = _over(
            canvas, np.broadcast_to(trunks, x.shape) / pixel, np.array((0.24, 0.16, 0.09), np.float32)
        )
        canvas = _dots(canvas, x, y + 1.05, pixel, rng, 12, 0.26, (0.13, 0.36, 0.17), flat=0.25)
    if scene == "city":
        edges = np.sort(rng.uniform(-1, 1, 7))
        block = np.searchsorted(edges, x[0])
        tops = rng.uniform(-0.75, 0.0, 8).astype(np.float32)[block]
        tone = rng.uniform(0.30, 0.50, 8).astype(np.float32)[block]
        canvas = _over(canvas, (y - tops) / pixel, tone[:, None] * np.array((0.95, 1.0, 1.12), np.float32))
        windows = (np.mod(x * 8, 1) > 0.55) & (np.mod(y * 6, 1) > 0.55) & (y > tops + 0.08)
        canvas = _over(canvas, windows * 0.8, np.array((0.98, 0.88, 0.52), np.float32))
    if scene == "sea":
        hills = y - horizon + 0.02 * np.sin(14 * x + phase)
        crest = 0.5 + 0.5 * np.sin(9 * x + 22 * y + 2 * np.sin(3 * x + phase))
        canvas = _over(canvas, hills / pixel, ground * (0.85 + 0.45 * crest**3)[..., None])
    else:
        canvas = _over(canvas, hills / pixel, ground * (1.08 - 0.25 * np.clip(hills, 0, 1))[..., None])
    if scene == "snow":
        canvas = _dots(canvas, x, y, pixel, rng, 34, 0.032, (1.0, 1.0, 1.0))
    if scene == "meadow":
        canvas = _dots(canvas, x, 0.5 * (y - 1.1) + 0.55, pixel, rng, 12, 0.035, (0.99, 0.85, 0.90), flat=0.2)
    return canvas


def _dots(canvas, x, y, pixel, rng, n, radius, colour, flat=1.0):  # n soft discs at random places
    places, sizes = rng.uniform(-1, 1, (n, 2)).tolist(), rng.uniform(0.6, 1.2, n).tolist()
    coverage = np.zeros_like(x)
    for (cx, cy), factor in zip(places, sizes, strict=True):
        np.maximum(coverage, radius * factor - np.hypot(x - cx, y - flat * cy), out=coverage)
    return _over(canvas, coverage / pixel, np.array(colour, np.float32))


def _limbs(canvas, row, u, v, soft):  # what tells the five domains apart, drawn behind the body
    dark, leaf = np.array((0.20, 0.17, 0.18), np.float32), np.array((0.25, 0.55, 0.25), np.float32)
    foot = _edge(row.silhouette, 0.0, 1.0)  # how far below the centre the body ends
    feet = [(side, _edge(row.silhouette, 0.5 * side, 0.86)) for side in (-1, 1)]
    if row.domain == "critters":
        for side, reach in feet:
            leg = 0.15 - np.hypot(u - 0.5 * side * reach, np.maximum(np.abs(v - 0.86 * reach - 0.1) - 0.2, 0))
            canvas = _over(canvas, leg * soft, dark)
    elif row.domain == "blooms":
        canvas = _over(canvas, (0.09 - np.hypot(u, np.maximum(np.abs(v - foot - 0.3) - 0.4, 0))) * soft, leaf)
        canvas = _over(canvas, (0.28 - np.hypot((u - 0.30) * 0.9, (v - foot - 0.4) * 1.9)) * soft, leaf)
    elif row.domain == "carts":
        for side, reach in feet:
            wheel = np.hypot(u - 0.55 * side * reach, v - 0.86 * reach - 0.08)
            canvas = _over(canvas, (0.32 - wheel) * soft, dark)
            canvas = _over(canvas, (0.13 - wheel) * soft, np.float32(0.75))
    elif row.domain == "moths":
        for side in (-1, 1):
            wing = 0.62 - np.hypot((u - side * 0.95) * 0.95, (v + 0.15 + 0.25 * side * u) * 1.25)
            canvas = _over(canvas, wing * soft, np.array((0.93, 0.90, 0.80), np.float32))
    else:
        for turn in (0.8, 2.4, 3.9, 5.5):  # a tassel at each corner of a cushion
            reach = _edge(row.silhouette, np.sin(turn), np.cos(turn))
            tassel = 0.17 - np.hypot(u - reach * np.sin(turn), v - reach * np.cos(turn))
            canvas = _over(canvas, tassel * soft, np.array((0.92, 0.76, 0.28), np.float32))
    return canvas


def _lobes(canvas, row, u, v, soft, accent):  # knobs on the body's edge, evenly spaced, starting at the top
    for turn in [2 * np.pi * lobe / row.lobes for lobe in range(row.lobes)]:
        du, dv = float(np.sin(turn)), -float(np.cos(turn))
        reach = _edge(row.silhouette, du, dv) + 0.06
        knob = 0.27 - np.hypot(u - reach * du, v - reach * dv)
        canvas = _over(canvas, knob * soft, accent * 0.45)
        canvas = _over(canvas, (knob - 0.05) * soft, accent)
    return canvas


def _edge(silhouette, du, dv):  # how far the body reaches from its centre in direction (du, dv)
    r = np.linspace(0, 1.4, 71)
    inside = _silhouette(silhouette, r * du, r * dv) > 0
    return float(r[inside].max(initial=0.0))


def _body(canvas, row, u, v, dx, dy, soft, base, accent):
    inside = _silhouette(row.silhouette, u, v)
    coat = _coat(row.texture, u, v, soft)[..., None]
    skin = base * (1 - coat) + accent * coat
    lit = 0.92 + 0.16 * np.clip(
        -0.5 * dx - 0.7 * dy, -1, 1
    )  # light falls from the upper left, whatever the pose
    outline = np.array((0.16, 0.13, 0.16), np.float32)
    canvas = _over(canvas, (inside + 0.05) * soft, outline)
    canvas = _over(canvas, inside * soft, skin * lit[..., None])
    height = {"drop": 0.28, "cone": 0.30, "bar": -0.05}.get(row.silhouette, -0.18)
    for cx in (-0.02, 0.38):  # two eyes, off centre towards where it faces
        canvas = _over(canvas, (0.17 - np.hypot(u - cx, v - height)) * soft, np.float32(0.98))
        canvas = _over(canvas, (0.09 - np.hypot(u - cx - 0.05, v - height - 0.01)) * soft, np.float32(0.06))
    return canvas


def _silhouette(silhouette, u, v):  # about the distance to the edge in body units, positive inside
    if silhouette == "ball":
        return 0.95 - np.hypot(u, v)
    if silhouette == "box":
        return 0.88 - (u**6 + v**6) ** (1 / 6)
    if silhouette == "cone":
        return 0.80 - np.maximum(v + 0.05, 0.87 * np.abs(u) - 0.5 * v + 0.22)
    if silhouette == "star":
        wedge = np.abs(np.mod(np.arctan2(u, -v) + np.pi / 5, 2 * np.pi / 5) - np.pi / 5) / (np.pi / 5)
        return 0.75 * (0.62 + 0.48 * (1 - wedge) ** 1.4 - np.hypot(u, v))
    if silhouette == "heart":
        point = 0.62 - 0.78 * (np.abs(u) + v) - 3 * np.maximum(-v - 0.25, 0)
        return np.maximum(0.60 - np.hypot(np.abs(u) - 0.46, v + 0.32), point)
    if silhouette == "drop":
        return 0.90 - np.hypot(1.1 * u / np.clip(0.64 + 0.42 * v, 0.12, 1), 0.92 * v)
    if silhouette == "cross":
        upright, across = (
            np.minimum(0.36 - np.abs(u), 1 - np.abs(v)),
            np.minimum(0.36 - np.abs(v), 1 - np.abs(u)),
        )
        return np.maximum(upright, across)
    return 0.50 - np.hypot(np.maximum(np.abs(u) - 0.62, 0), v)  # bar


def _coat(texture, u, v, soft):  # (h, w) in [0, 1]: where the accent colour is
    def edge(wave, slope):
        return np.clip(wave * soft / slope + 0.5, 0, 1)

    if texture == "striped":
        return edge(np.sin(6.2 * u), 6.2)
    if texture == "spotted":
        w = v + np.where(np.mod(np.floor(u / 0.7), 2) == 1, 0.35, 0.0)
        return edge(0.23 - np.hypot(np.mod(u, 0.7) - 0.35, np.mod(w, 0.7) - 0.35), 1)
    if texture == "checkered":
        return edge(np.sin(5.2 * u) * np.sin(5.2 * v), 5.2)
    if texture == "ringed":
        return edge(np.sin(8.2 * np.hypot(u, v) + 0.8), 8.2)
    if texture == "wavy":
        return edge(np.sin(6.2 * v + 1.8 * np.sin(4.6 * u)), 8)
    if texture == "speckled":
        return edge(0.085 - np.hypot(np.mod(u + 0.4 * v, 0.29) - 0.145, np.mod(v, 0.29) - 0.145), 1)
    if texture == "patched":
        return edge(np.sin(2.6 * u + 1.1) + np.sin(3.1 * v + 0.7 + u) - 0.25, 3)
    return np.zeros_like(u)  # plain
