"""The factors of the miniature world: what a picture is made of, what it is called, what makes two alike.

A *species* fixes domain, silhouette, lobes, texture, colour and accent; a *view* varies pose, light and background
from picture to picture. Reading order: the vocabulary, `species` and `views` (sampling), `name` and `caption` (words),
`similarity` (the graded truth behind every criterion, which the simulated judge sees through noise).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

DOMAINS = {"critters": "critter", "cushions": "cushion", "blooms": "bloom", "carts": "cart", "moths": "moth"}
SILHOUETTES = ("ball", "box", "cone", "star", "heart", "drop", "cross", "bar")
LOBES = {0: "no lobes", 2: "two lobes", 3: "three lobes", 4: "four lobes", 6: "six lobes"}
TEXTURES = ("plain", "striped", "spotted", "checkered", "ringed", "wavy", "speckled", "patched")
COLOURS = {  # sRGB in [0, 1]
    "red": (0.84, 0.15, 0.16),
    "orange": (0.96, 0.53, 0.12),
    "yellow": (0.98, 0.85, 0.22),
    "green": (0.20, 0.60, 0.24),
    "teal": (0.13, 0.66, 0.64),
    "blue": (0.18, 0.36, 0.83),
    "purple": (0.52, 0.24, 0.70),
    "pink": (0.97, 0.56, 0.74),
    "brown": (0.50, 0.31, 0.17),
    "white": (0.97, 0.96, 0.93),
    "black": (0.12, 0.12, 0.14),
}
SCENES = {  # the words a caption uses, and the scene's overall colour
    "meadow": ("in a meadow", (0.55, 0.75, 0.55)),
    "desert": ("in the desert", (0.90, 0.78, 0.52)),
    "snow": ("in the snow", (0.88, 0.92, 0.97)),
    "sea": ("at sea", (0.35, 0.60, 0.80)),
    "night": ("at night", (0.10, 0.11, 0.25)),
    "forest": ("in a forest", (0.16, 0.30, 0.18)),
    "sunset": ("at sunset", (0.92, 0.52, 0.40)),
    "city": ("in a city", (0.58, 0.60, 0.66)),
}
POSES = {"upright": 0.0, "leaning left": -55.0, "leaning right": 55.0}  # degrees, clockwise
CRITERIA = ("breed", "colour", "pose", "texture", "background")

LIGHTS = ("plain", "cold", "warm", "dim", "dim cold", "dim warm", "bright", "bright cold", "bright warm")
PLACES = ("on the left", "in the middle", "on the right")

# how often a caption names each factor: the species' factors most, so that names work zero-shot; the view's often
# enough that a student's untrained similarity mixes both
_CAPTION_RATES = {
    "texture": 0.85,
    "colour": 0.65,
    "accent": 0.5,
    "silhouette": 0.85,
    "domain": 0.6,
    "lobes": 0.6,
    "scale": 0.2,
    "rotation": 0.6,
    "flip": 0.3,
    "position": 0.4,
    "light": 0.6,
    "background": 0.7,
}

ATTRIBUTES = {  # a caption that names one attribute, and all values it can take
    "texture": ("{} creature", list(TEXTURES)),
    "colour": ("{} creature", list(COLOURS)),
    "accent": ("creature with {} marks", list(COLOURS)),
    "silhouette": ("{}", list(SILHOUETTES)),
    "lobes": ("creature with {}", list(LOBES.values())),
    "domain": ("{}", list(DOMAINS.values())),
    "pose": ("creature, {}", list(POSES)),
    "facing": ("creature, {}", ["facing right", "facing left"]),
    "place": ("creature, {}", list(PLACES)),
    "light": ("creature, in {} light", list(LIGHTS)),
    "background": ("creature, {}", [words for words, _ in SCENES.values()]),
}

SPECIES_COLUMNS = ["domain", "silhouette", "lobes", "texture", "colour", "accent"]
VIEW_COLUMNS = ["rotation", "flip", "scale", "x", "y", "brightness", "warmth", "background"]

_KIN = {  # pairs of unlike values that still look related; every other unlike pair scores the floor
    "texture": {
        ("striped", "wavy"): 0.6,
        ("spotted", "speckled"): 0.6,
        ("checkered", "patched"): 0.45,
        ("ringed", "wavy"): 0.4,
        ("ringed", "striped"): 0.4,
        ("plain", "speckled"): 0.35,
        ("plain", "patched"): 0.3,
        ("checkered", "striped"): 0.3,
    },
    "silhouette": {
        ("ball", "drop"): 0.5,
        ("ball", "heart"): 0.4,
        ("heart", "drop"): 0.4,
        ("box", "bar"): 0.4,
        ("cross", "star"): 0.5,
        ("cone", "drop"): 0.4,
        ("cone", "star"): 0.3,
        ("ball", "box"): 0.3,
    },
    "background": {
        ("meadow", "forest"): 0.55,
        ("desert", "sunset"): 0.45,
        ("snow", "sea"): 0.35,
        ("night", "city"): 0.35,
        ("night", "forest"): 0.3,
        ("meadow", "desert"): 0.3,
        ("meadow", "sea"): 0.25,
        ("sunset", "night"): 0.25,
    },
}


def species(
    rng: np.random.Generator,
    n: int,
    domain: str | None = None,
    palette: Sequence[str] = tuple(COLOURS),
) -> pd.DataFrame:  # n rows, SPECIES_COLUMNS
    """``n`` random species, of one domain or of all. Colour and accent differ and come from ``palette``."""
    colours = np.array(palette)
    colour = rng.integers(len(colours), size=n)
    accent = (colour + rng.integers(1, len(colours), size=n)) % len(colours)
    return pd.DataFrame(
        {
            "domain": rng.choice(list(DOMAINS), n) if domain is None else domain,
            "silhouette": rng.choice(SILHOUETTES, n),
            "lobes": rng.choice(list(LOBES), n),
            "texture": rng.choice(TEXTURES, n),
            "colour": colours[colour],
            "accent": colours[accent],
        }
    )


def views(rng: np.random.Generator, n: int) -> pd.DataFrame:  # n rows, VIEW_COLUMNS
    """``n`` random views: rotation in degrees [-180, 180), scale and x, y in half-frames, light as factors."""
    rotation = rng.choice(list(POSES.values()), n) + rng.uniform(-20, 20, n)
    return pd.DataFrame(
        {
            "rotation": (rotation + 180) % 360 - 180,
            "flip": rng.integers(2, size=n),
            "scale": rng.uniform(0.56, 0.82, n),
            "x": rng.uniform(-0.16, 0.16, n),
            "y": rng.uniform(-0.12, 0.12, n),
            "brightness": rng.uniform(0.60, 1.25, n),
            "warmth": rng.uniform(-1.0, 1.0, n),
            "background": rng.choice(list(SCENES), n),
        }
    ).round(4)


def name(row) -> str:
    """What a species is called: its fixed factors as words that captions use (``row``: anything with the columns)."""
    coat = f"plain {row.colour}" if row.texture == "plain" else f"{row.texture} {row.colour} and {row.accent}"
    return f"{coat} {row.silhouette} {DOMAINS[row.domain]} with {LOBES[row.lobes]}"


def pose(rotation: float) -> str:
    """The nearest of the three named poses to a rotation in degrees."""
    return min(POSES, key=lambda p: abs((rotation - POSES[p] + 180) % 360 - 180))


def attributes(pictures: pd.DataFrame) -> pd.DataFrame:  # n rows, one column an attribute
    """Which value of each of `ATTRIBUTES` a picture has, as a place in its list."""
    said = {
        "texture": pictures["texture"],
        "colour": pictures["colour"],
        "accent": pictures["accent"],
        "silhouette": pictures["silhouette"],
        "lobes": pictures["lobes"].map(LOBES),
        "domain": pictures["domain"].map(DOMAINS),
        "pose": pictures["rotation"].map(pose),
        "facing": pictures["flip"].map({0: "facing right", 1: "facing left"}),
        "place": pictures["x"].map(place),
        "light": [light(*row) for row in pictures[["brightness", "warmth"]].to_numpy()],
        "background": pictures["background"].map(lambda scene: SCENES[scene][0]),
    }
    return pd.DataFrame(
        {name: [values.index(word) for word in said[name]] for name, (_, values) in ATTRIBUTES.items()},
        pictures.index,
    )


def light(brightness: float, warmth: float) -> str:
    """The light in words: dim or bright, cold or warm; "plain" in between."""
    level = "dim" if brightness < 0.82 else "bright" if brightness > 1.05 else ""
    tone = "cold" if warmth < -0.35 else "warm" if warmth > 0.35 else ""
    return f"{level} {tone}".strip() or "plain"


def place(x: float) -> str:
    """Where in the picture a creature is, from its centre in half-frames."""
    return PLACES[int(np.digitize(x, (-0.06, 0.06)))]


def caption(row, rng: np.random.Generator) -> str:
    """One of many sentences about a picture: names a random part of its factors, the species' most often."""
    said = dict(
        zip(_CAPTION_RATES, rng.random(len(_CAPTION_RATES)) < list(_CAPTION_RATES.values()), strict=True)
    )
    coat = row.texture if said["texture"] else ""
    accent = f" and {row.accent}" if said["accent"] and row.texture != "plain" else ""
    words = {
        "scale": "small" if row.scale < 0.64 else "large" if row.scale > 0.74 else "",
        "texture": coat,
        "colour": row.colour + accent,
        "silhouette": row.silhouette,
        "domain": DOMAINS[row.domain],
        "lobes": f"with {LOBES[row.lobes]}",
    }
    if not (said["silhouette"] or said["domain"]):
        words["domain"], said["domain"] = "creature", True
    subject = " ".join(word for key, word in words.items() if word and said[key])
    view = {
        "rotation": pose(row.rotation),
        "flip": "facing left" if row.flip else "facing right",
        "position": place(row.x),
        "light": f"in {light(row.brightness, row.warmth)} light",
        "background": SCENES[row.background][0],
    }
    opening = ("a photo of a ", "a picture of a ", "a ")[rng.choice(3, p=(0.6, 0.2, 0.2))]
    return opening + ", ".join([subject, *(phrase for key, phrase in view.items() if said[key])])


def similarity(
    criterion: str,
    first: pd.DataFrame,  # n rows with the factor columns
    second: pd.DataFrame,  # n rows with the factor columns
) -> np.ndarray:  # (n,) in [0, 1]
    """How alike row i of ``first`` and row i of ``second`` are under a criterion, 1 meaning "the same".

    Raises:
        ValueError: for a criterion the world does not know; the known ones are listed.
    """
    if criterion not in _SIMILARITY:
        raise ValueError(f"criterion must be one of {', '.join(CRITERIA)}, but is {criterion!r}")
    return _SIMILARITY[criterion](first, second)


def _breed(a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
    lobes = 1 - np.abs(a.lobes.to_numpy(float) - b.lobes.to_numpy(float)) / max(LOBES)
    coat = 0.6 * _hues("colour", a, b) + 0.4 * _hues("accent", a, b)
    body = 0.28 * _kin("silhouette", a, b) + 0.10 * lobes + 0.32 * _kin("texture", a, b) + 0.30 * coat
    return body * np.where(_same("domain", a, b), 1.0, 0.7)


def _colour(a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
    scenes = {scene: rgb for scene, (_, rgb) in SCENES.items()}
    brightness = np.exp(-np.abs(_minus("brightness", a, b)) / 0.30)
    warmth = np.exp(-np.abs(_minus("warmth", a, b)) / 0.9)
    return (
        0.30 * brightness
        + 0.25 * warmth
        + 0.25 * _hues("background", a, b, scenes)
        + 0.20 * _hues("colour", a, b)
    )


def _pose(a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
    angle = (0.5 + 0.5 * np.cos(np.radians(1.3 * _minus("rotation", a, b)))) ** 2
    size = np.exp(-np.abs(np.log(a["scale"].to_numpy() / b["scale"].to_numpy())) / 0.15)
    place = np.exp(-np.hypot(_minus("x", a, b), _minus("y", a, b)) / 0.14)
    return 0.55 * angle + 0.10 * _same("flip", a, b) + 0.15 * size + 0.20 * place


def _texture(a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
    return 0.88 * _kin("texture", a, b) + 0.12 * _hues("accent", a, b)


def _background(a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:
    return _kin("background", a, b)


_SIMILARITY = {
    "breed": _breed,
    "colour": _colour,
    "pose": _pose,
    "texture": _texture,
    "background": _background,
}


def _same(column: str, a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:  # (n,) 0 or 1
    return (a[column].to_numpy() == b[column].to_numpy()).astype(float)


def _minus(column: str, a: pd.DataFrame, b: pd.DataFrame) -> np.ndarray:  # (n,)
    return a[column].to_numpy(float) - b[column].to_numpy(float)


def _kin(
    column: str, a: pd.DataFrame, b: pd.DataFrame
) -> np.ndarray:  # (n,) 1 same, kin in between, else 0.05
    table = _KIN[column]
    values = [table.get((x, y), table.get((y, x), 0.05)) for x, y in zip(a[column], b[column], strict=True)]
    return np.where(_same(column, a, b) == 1, 1.0, values)


def _hues(column: str, a: pd.DataFrame, b: pd.DataFrame, colours: dict = COLOURS) -> np.ndarray:  # (n,)
    x, y = (np.array([colours[value] for value in frame[column]]).reshape(-1, 3) for frame in (a, b))
    return np.exp(-((np.linalg.norm(x - y, axis=-1) / 0.45) ** 1.5))
