"""Pictures as plain RGB, from a folder or from one ``.zip`` pack, and nothing else from anywhere else.

What a file is is decided by its bytes, not its name; size is checked in the header before a pixel is decoded;
EXIF orientation is applied; of an animation the first frame counts; 16 bits become 8 by division by 257;
transparency is laid over white. In reading order: `open_pictures`, `Pictures`, `prepare`, `picture_hash`,
`write_pack`, `check_inside`.
"""

import hashlib
import io
import os
import threading
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

# what CLIP data sets hold; others (PostScript, fonts, ...) are never handed to a decoder
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM")
MAX_PIXELS = 178_956_970  # Pillow's own limit for a "bomb"
MAX_BYTES = 1 << 28
ORIENTATION_TAG = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class PictureError(ValueError):
    """A picture that is missing, damaged, too large, or outside its root; the message names it."""


class DamagedPictureWarning(UserWarning):
    """A picture whose data breaks off half-way was loaded as far as it goes."""


def open_pictures(root: Path | str) -> "Pictures":
    """The pictures below a folder, or in a ``.zip`` pack.

    Raises:
        FileNotFoundError: if there is no such folder or pack.
        PictureError: if the pack is not a zip file.
    """
    root = Path(root)
    if root.is_dir():
        return Pictures(root.resolve())
    if not root.exists():
        raise FileNotFoundError(f"picture folder {root} is missing; give an existing folder or .zip pack")
    if not zipfile.is_zipfile(root):
        raise PictureError(f"{root} is neither a folder nor a .zip pack of pictures; give one of the two")
    return Pictures(root.resolve(), zipfile.ZipFile(root))


class Pictures:
    """Loads and hashes pictures by their path below the root, which is what a manifest lists."""

    def __init__(self, root: Path, pack: zipfile.ZipFile | None = None):
        self.root = root
        self._pack = pack
        self._hashes: dict[str, str] = {}

    def load(self, path: str) -> Image.Image:
        """The prepared RGB picture.

        Raises:
            PictureError: in one sentence that names the picture, for whatever keeps it from being read.
        """
        return prepare(self._read(path), path)

    def sha256(self, path: str) -> str:
        """The hash of the prepared picture (see `picture_hash`), computed once per path.

        Raises:
            PictureError: like `load`.
        """
        if path not in self._hashes:
            self._hashes[path] = picture_hash(self.load(path))
        return self._hashes[path]

    def digest(self, path: str) -> bytes:
        """sha256 of the file's own bytes: which file it is, found without decoding it.

        Raises:
            PictureError: if the file cannot be read.
        """
        return hashlib.sha256(self._read(path)).digest()

    def _read(self, path: str) -> bytes:
        check_inside(path)
        if self._pack is None:
            return _read_file(self.root, path)
        try:
            size = self._pack.getinfo(path).file_size
        except KeyError:
            raise PictureError(f"picture {path} is not in {self.root.name}; correct the manifest") from None
        _check_bytes(size, path)
        try:
            return self._pack.read(path)
        except (zipfile.BadZipFile, OSError) as error:
            told = f"picture {path} of {self.root.name} cannot be unpacked ({error}); replace it"
            raise PictureError(told) from error


def prepare(
    data: bytes,
    name: str,  # for messages
) -> Image.Image:  # RGB
    """Decodes the bytes of one picture into RGB as the module describes.

    Raises:
        PictureError: if the bytes are no picture of the known formats, too large, or cut short.

    Warns:
        DamagedPictureWarning: if the data breaks off inside and the rest is black.
    """
    if not data:
        raise PictureError(f"picture {name} is empty; replace the file or take it out of the manifest")
    try:
        with _QUIET, Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:  # someone may have lifted Pillow's own limit
                raise Image.DecompressionBombError
            damaged = _decode(image)
            prepared = _to_rgb(_upright(image))
    except Image.DecompressionBombError as error:
        raise PictureError(
            f"picture {name} claims more than {MAX_PIXELS} pixels; scale it down or take it out"
        ) from error
    except Exception as error:  # decoders raise a dozen types, SyntaxError and struct.error among them
        reason = (
            str(error) if not isinstance(error, Image.UnidentifiedImageError) else f"not {', '.join(FORMATS)}"
        )
        raise PictureError(f"picture {name} cannot be read ({reason}); replace it or take it out") from error
    if damaged:
        warnings.warn(
            f"picture {name} is damaged; what could not be decoded is black",
            DamagedPictureWarning,
            stacklevel=2,
        )
    return prepared


def picture_hash(image: Image.Image) -> str:
    """sha256 over mode, size and pixels: the same picture under two names is one, 2 x 3 and 3 x 2 are two."""
    header = f"{image.mode} {image.width} {image.height}\n".encode()
    return hashlib.sha256(header + image.tobytes()).hexdigest()


def write_pack(path: Path, items: Iterable[tuple[str, bytes]]) -> None:
    """Packs pictures into one uncompressed zip whose bytes depend on names, contents and their order alone.

    Raises:
        PictureError: for a name that leaves the pack or comes twice; nothing is written then.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as pack:
            for name, data in items:
                check_inside(name)
                if name in pack.NameToInfo:
                    raise PictureError(
                        f"picture {name} comes twice in one pack; give each picture its own name"
                    )
                entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                entry.create_system, entry.external_attr = 3, 0o644 << 16
                pack.writestr(entry, data)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def check_inside(path: str) -> None:
    """Accepts relative paths with forward slashes that go down only.

    Raises:
        PictureError: for an absolute path, ``..``, a backslash, or an empty path.
    """
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or path.startswith("/") or "\\" in path or "\0" in path:
        raise PictureError(
            f"path {path!r} leaves the picture folder; write it relative to the folder, like dogs/one.jpg"
        )


class _Quiet:
    """Silences Pillow's remarks on odd metadata and on large pictures, whichever threads decode at a time.

    `warnings.catch_warnings` alone must not be entered by two threads: the last to leave would keep the filters that
    the first one set.
    """

    def __init__(self):
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._caught = warnings.catch_warnings()
                self._caught.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._caught.__exit__(None, None, None)


_QUIET = _Quiet()


def _read_file(root: Path, path: str) -> bytes:
    file = (root / path).resolve()
    if not file.is_relative_to(root):
        raise PictureError(f"picture {path} is a link out of {root}; copy the picture into the folder")
    try:
        _check_bytes(file.stat().st_size, path)
        return file.read_bytes()
    except OSError as error:
        reason = (
            "does not exist"
            if isinstance(error, FileNotFoundError)
            else f"cannot be opened ({error.strerror})"
        )
        raise PictureError(
            f"picture {path} {reason} in {root}; correct the folder or the manifest"
        ) from error


def _check_bytes(size: int, path: str) -> None:
    if size > MAX_BYTES:
        raise PictureError(f"picture {path} has {size} bytes, at most {MAX_BYTES} are read; scale it down")


def _decode(image: Image.Image) -> bool:
    """Decodes all pixels; whether a damaged stream left some of them black.

    Pillow raises at the first try either way. A file that was cut short fails again; of a stream that is
    damaged inside the second try yields what was decoded.
    """
    try:
        image.load()
        return False
    except OSError:
        image.load()
        return True


def _upright(image: Image.Image) -> Image.Image:
    """Turned and mirrored as EXIF says; metadata that cannot be read says nothing."""
    try:
        orientation = image.getexif().get(ORIENTATION_TAG)
    except Exception:  # like the decoders, the EXIF reader raises whatever the bytes provoke
        orientation = None
    return image.transpose(TURNS[orientation]) if orientation in TURNS else image


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits, in whatever byte order
        values = np.asarray(image).astype(np.float64) / 257
        image = Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8))
    if not image.has_transparency_data:
        return image.convert("RGB")
    colours = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours).convert("RGB")
