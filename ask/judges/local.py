"""A judge on this machine: any image-text-to-text model of transformers, read at its logits.

    model     a folder below the project's root; with ``revision``, a model of the Hugging Face hub
    revision  its commit, 40 hex digits: a branch moves, and the answers would move with it
    prompt    instead of the criterion's own; {criterion} stands for it
    lead      what the model writes before its digit, a space above all; put at the answer's beginning
    dtype     bfloat16, float16 or float32, of weights and arithmetic
    side      pixels of a picture's longer side at most; larger ones cost many more tokens
    batch, device
              pairs at a time, and where; they change no answer beyond rounding

Nothing is sampled. One pass over a batch of questions gives the logits at the place where the answers begin,
before any temperature or penalty, and a digit has the probability of all tokens that spell it:
p(v) = Σ softmax(z)[t] over the tokens t that are v but for white space (ASK, eq. (2)). Weights are read from
safetensors only, and no code comes with them (``vlm``). In reading order: `Local`, `settings`, `weights_of`,
`fitted`.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from ask.datasets.pictures import Pictures
from ask.judges import DIGITS, Computed, JudgeError, Pair, Reply
from ask.judges.prompt import general_prompt
from ask.judges.verdict import expected, mass
from ask.judges.vlm import Loaded, Shown, load
from ask.paths import root

RULE = 1  # raise it whenever the same model comes to give other answers
DTYPES = ("bfloat16", "float16", "float32")
DEFAULTS = {
    "revision": None,
    "prompt": None,
    "lead": "",
    "dtype": "bfloat16",
    "side": 512,
    "batch": 8,
    "device": "auto",
}
COUNTS = ("side", "batch")
PICTURES = 256  # kept prepared; 200 MB at the default side
LEAST = 28  # pixels of the shorter side; below one patch, models fail in their own ways
PROBED = 2  # pairs that a model is tried with
LEAST_MASS = 0.1  # probability on digits, below which the model is about to write something else
MOST_SHIFT = 0.3  # digits by which a batch may move a score; the rounding of bfloat16 moves it by a tenth
READ = {".safetensors", ".json", ".jinja", ".model", ".txt"}  # files of a model that can change an answer


class Local(Computed):
    """Scores pairs by a model's own probabilities; the module describes its ``entry``.

    The model is loaded when it is first needed: answers that are stored can be read without it.

    Raises:
        JudgeError: for a setting that is unknown, missing or does not fit, or a folder that holds no model.
    """

    def __init__(
        self,
        name: str,
        entry: Mapping[str, Any],
        criterion: str,
        pictures: Pictures,
        paths: Sequence[str],  # path of each row of the manifest
        *,
        prompt: str | None = None,  # the criterion in a general form, if not given
    ):
        told = settings(name, entry)
        asked = told["prompt"] or prompt or general_prompt(criterion)
        self.batch_size = told["batch"]
        self.identity = {
            "kind": "local",
            "name": name,
            "criterion": criterion,
            "model": weights_of(name, told["model"], told["revision"]),
            "prompt": asked.replace("{criterion}", criterion).strip(),
            "layout": "text, first picture, second picture",
            "lead": told["lead"],
            "dtype": told["dtype"],
            "preparation": {"side": told["side"], "least": LEAST},
            "rule": RULE,
        }
        self._told, self._loaded = told, None
        self._picture = lru_cache(PICTURES)(lambda row: fitted(pictures.load(paths[row]), told["side"]))

    def settle(self, pairs: Sequence[Pair]) -> None:
        """Loads the model and tries it, so that one that cannot be read stops the run before it began.

        Raises:
            JudgeError: if the model cannot be loaded, is not about to write a digit, or answers otherwise in
                a batch than alone.
            PictureError: if a picture cannot be read.
        """
        self._load()
        shown = self._shown(pairs[:PROBED])
        if not shown:
            return
        shown.append(tuple(fitted(picture, side=LEAST) for picture in shown[0]))  # to be padded
        alone = [reply for one in shown for reply in self._replies([one])]
        most, text = max((mass(_row(reply)), reply.text) for reply in alone)
        if most < LEAST_MASS:
            raise JudgeError(
                f"judge {self.identity['name']}: where the answer begins, {self._told['model']} puts {most:.1%} on "
                f"digits and would write {text!r}; ask for the digit only, or set lead to what comes before it"
            )
        if self.batch_size > 1:
            together = self._replies(shown)
            scores = [[float(expected(_row(reply))) for reply in replies] for replies in (alone, together)]
            shift = max(abs(a - b) for a, b in zip(*scores, strict=True))
            if not shift <= MOST_SHIFT:
                raise JudgeError(
                    f"judge {self.identity['name']}: a score of {self._told['model']} moves by {shift:.2f} in a "
                    f"batch, at most {MOST_SHIFT} is rounding; set batch: 1, or dtype: float32"
                )

    def answer(self, pairs: Sequence[Pair]) -> list[Reply]:
        """One reply per pair, in order.

        Raises:
            JudgeError: if the model cannot be loaded, or the batch does not fit the device.
            PictureError: if a picture cannot be read.
        """
        return self._replies(self._shown(pairs))

    def _shown(self, pairs: Sequence[Pair]) -> list[Shown]:
        return [(self._picture(pair.first_row), self._picture(pair.second_row)) for pair in pairs]

    def _replies(self, shown: list[Shown]) -> list[Reply]:
        return self._load().replies(shown)

    def _load(self) -> Loaded:
        if self._loaded is None:
            self._loaded = load(self.identity["name"], self._told, self.identity["prompt"])
        return self._loaded


def settings(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """A local judge's entry with every default filled in.

    Raises:
        JudgeError: for a setting that is unknown, missing, or of the wrong kind.
    """
    told = {key: value for key, value in entry.items() if key != "kind"}
    if unknown := sorted(set(told) - set(DEFAULTS) - {"model"}):
        known = ", ".join(["model", *DEFAULTS])
        raise JudgeError(f"judge {name} has no setting {unknown[0]!r}; a local judge knows {known}")
    filled = {"model": None} | DEFAULTS | told
    for key, value in filled.items():
        if key in COUNTS and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise JudgeError(f"{key} of judge {name} must be a whole number >= 1, but is {value!r}")
        if key not in COUNTS and not isinstance(value, str) and (key, value) not in DEFAULTS.items():
            raise JudgeError(f"{key} of judge {name} must be text, but is {value!r}")
    if filled["dtype"] not in DTYPES:
        known = ", ".join(DTYPES)
        raise JudgeError(f"dtype of judge {name} must be one of {known}, but is {filled['dtype']!r}")
    if filled["side"] < LEAST:
        raise JudgeError(f"side of judge {name} must be at least {LEAST} pixels, but is {filled['side']}")
    return filled


def weights_of(name: str, model: str, revision: str | None) -> str:
    """What makes a model's weights, tokenizer and template these and no others, wherever they lie.

    Raises:
        JudgeError: if the revision is no commit, or without one, if the folder is missing or has no weights.
    """
    if revision is not None:
        if not re.fullmatch("[0-9a-f]{40}", revision):
            raise JudgeError(
                f"revision of judge {name} must be a commit of {model}, 40 hex digits, but is {revision!r}; copy it "
                "from the model's history on the hub"
            )
        return f"{model}@{revision}"
    folder = root() / model
    if not folder.is_dir():
        raise JudgeError(
            f"judge {name}: there is no folder {folder}; correct model, or if it is one of the hub, add its commit "
            "as revision"
        )
    if not any(folder.glob("*.safetensors")):
        raise JudgeError(f"judge {name}: {folder} holds no .safetensors file; convert the weights first")
    total = hashlib.sha256()
    for file in sorted(file for file in folder.iterdir() if file.suffix in READ):
        with file.open("rb") as opened:
            total.update(f"{file.name} {hashlib.file_digest(opened, 'sha256').hexdigest()}\n".encode())
    return f"sha256:{total.hexdigest()}"


def fitted(picture: Image.Image, side: int) -> Image.Image:
    """A picture with its longer side at most ``side`` and its shorter one at least `LEAST`, if need be distorted."""
    scale = min(1.0, side / max(picture.size))
    size = tuple(max(LEAST, round(scale * length)) for length in picture.size)
    return picture if size == picture.size else picture.resize(size, Image.Resampling.LANCZOS)


def _row(reply: Reply) -> np.ndarray:  # (9,)
    return np.array([reply.digits[digit] for digit in DIGITS])
