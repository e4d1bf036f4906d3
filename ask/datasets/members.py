"""Pictures that are no files of their own: rows of a table, entries of a pickle, an archive or an HDF5 file.

Their path is that of the file, then what it calls them: ``test/0.tar/s0000000.webp``, ``fer2013.csv/17``. Everything
else is a picture below a folder, as in ``pictures``.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path, PurePosixPath

from PIL import Image

from ask.datasets.pictures import PictureError, Pictures, check_inside

# which of the formats opens a file, by its suffix; loaded only where a manifest lists such a member
OPENERS = {".tar": "webdataset", ".csv": "fer2013", ".h5": "pcam", "": "cifar"}
KEPT = 4  # files that stay open


class Members(Pictures):
    """Like `Pictures`, of a folder, and for members of files as well."""

    def __init__(self, root: Path | str):
        super().__init__(Path(root).resolve())
        self._lock = threading.Lock()
        self._opened: OrderedDict[Path, Callable[[str], Image.Image]] = OrderedDict()

    def load(self, path: str) -> Image.Image:
        """The prepared RGB picture.

        Raises:
            PictureError: in one sentence that names the picture, for whatever keeps it from being read.
        """
        check_inside(path)
        file, member = self._split(path)
        if not member:
            return super().load(path)
        try:
            return self._open(file)(member).convert("RGB")
        except (LookupError, OSError, ValueError) as error:
            raise PictureError(f"picture {path} cannot be read ({error}); correct the manifest") from error

    def digest(self, path: str) -> bytes:
        """sha256 of the file's own bytes; of a member's decoded picture, since it has no bytes of its own.

        Raises:
            PictureError: if the file cannot be read.
        """
        check_inside(path)
        return bytes.fromhex(self.sha256(path)) if self._split(path)[1] else super().digest(path)

    def _split(self, path: str) -> tuple[Path, str]:
        """The file of a path, and what lies in it; empty for a picture that is a file."""
        parts = PurePosixPath(path).parts
        for count in range(1, len(parts)):
            file = self.root.joinpath(*parts[:count])
            if file.is_file():
                if not file.resolve().is_relative_to(self.root):
                    raise PictureError(
                        f"picture {path} lies in a link out of {self.root}; copy the file here"
                    )
                return file, "/".join(parts[count:])
        return self.root / path, ""

    def _open(self, file: Path) -> Callable[[str], Image.Image]:
        if file.suffix not in OPENERS:
            raise PictureError(f"{file.name} is no file that pictures are read from")
        with self._lock:
            if file not in self._opened:
                reader = import_module(f"ask.datasets.formats.{OPENERS[file.suffix]}")
                self._opened[file] = reader.opened(file)
            self._opened.move_to_end(file)
            opened = self._opened[file]
            if len(self._opened) > KEPT:
                self._opened.popitem(last=False)
        return opened
