"""Pictures as a judge is sent them: upright, plain RGB, neither huge nor tiny, PNG or JPEG, encoded once each.

Decoding and its dangers are `ask.datasets.pictures`'s part. In reading order: `Preparation`, `encode`, `data_url`,
`EncodedPictures`.
"""

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PIL import Image

from ask.datasets.pictures import PictureError, Pictures
from ask.judges import JudgeError

LISTED = 5  # refused pictures that an error names


@dataclass(frozen=True)
class Preparation:
    """What is done to a picture before it is sent; part of a judge's identity."""

    max_side: int = 512  # pixels of the longer side; CLIP sees 224
    min_side: int = 32  # of the shorter side: patches of served models are up to 32 pixels wide
    max_aspect: float = 100.0  # longer over shorter side; servers refuse beyond 200
    png_bytes: int = 32_768  # a PNG up to this size is sent as it is, losslessly; a larger picture as JPEG
    quality: int = 92  # of JPEG, without chroma subsampling

    def __post_init__(self):
        for name, value in vars(self).items():
            if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
                raise JudgeError(f"preparation.{name} must be a positive number, but is {value!r}")
        if self.min_side > self.max_side:
            raise JudgeError(
                f"preparation.min_side {self.min_side} is above max_side {self.max_side}; swap them"
            )


def encode(
    image: Image.Image,  # RGB
    preparation: Preparation,
    name: str,  # for messages
) -> bytes:  # PNG or JPEG without metadata
    """A prepared picture as bytes.

    Raises:
        PictureError: if it is too long and narrow for any size to fit.
    """
    if image.mode != "RGB":
        raise PictureError(f"picture {name} must be RGB, but is {image.mode}; load it with Pictures.load")
    image = image.resize(_size(image.size, preparation, name), Image.Resampling.LANCZOS)
    image.info = {}  # EXIF, colour profiles and comments stay here
    data = _saved(image, "PNG", optimize=True)
    if len(data) <= preparation.png_bytes:
        return data
    return _saved(image, "JPEG", quality=preparation.quality, subsampling=0)


def data_url(
    data: bytes,  # PNG or JPEG
) -> str:  # one line
    """Bytes as a data URL of the type that they have."""
    kind = "png" if data.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


class EncodedPictures:
    """The data URL of each picture, made once and kept: about 27 MB for the paper's 1,250 pictures of 16 kB."""

    def __init__(
        self,
        pictures: Pictures,
        paths: Sequence[str],  # path of each row of the manifest
        preparation: Preparation,
    ):
        self._pictures, self._paths, self._preparation = pictures, paths, preparation
        self._urls: dict[int, str] = {}

    def url(self, row: int) -> str:
        """The data URL of a row's picture.

        Raises:
            PictureError: if it cannot be read or sent.
        """
        if row not in self._urls:
            path = self._paths[row]
            self._urls[row] = data_url(encode(self._pictures.load(path), self._preparation, path))
        return self._urls[row]

    def check(self, rows: Iterable[int]) -> None:
        """Encodes the pictures of a whole plan, before anything is paid for.

        Raises:
            PictureError: if any cannot be read or sent; the message counts all and names the first.
        """
        refused = []
        for row in sorted(rows):
            try:
                self.url(row)
            except PictureError as error:
                refused.append(str(error))
        if refused:
            rest = f"; and {len(refused) - LISTED} more" if len(refused) > LISTED else ""
            raise PictureError(
                f"{len(refused)} pictures cannot be sent, nothing was asked: {'; '.join(refused[:LISTED])}{rest}"
            )


def _size(size: tuple[int, int], preparation: Preparation, name: str) -> tuple[int, int]:
    """The nearest size within the limits, in the same proportions where these allow it."""
    longer, shorter = max(size), min(size)
    if longer > preparation.max_aspect * shorter:
        raise PictureError(
            f"picture {name} is {size[0]} x {size[1]}, more than {preparation.max_aspect:g} times as long as wide; "
            "crop it or take it out"
        )
    scale = min(preparation.max_side / longer, max(1.0, preparation.min_side / shorter))
    width, height = (max(preparation.min_side, round(side * scale)) for side in size)
    return width, height


def _saved(image: Image.Image, kind: str, **options: object) -> bytes:
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()
