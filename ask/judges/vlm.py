"""A vision-language model of transformers, made ready to be read at the place where its answers begin.

In reading order: `load`; `question` and `digit_ids`, which refuse a model whose answer cannot be read like this;
`Loaded`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from ask.judges import DIGITS, JudgeError, Reply
from ask.paths import root

BLANKS = dict.fromkeys(map(ord, "Ġ▁Ċ"), " ")  # how tokenizers write a space and the end of a line
THOUGHTS = (  # how a reasoning model opens and closes what is not yet its answer
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel>", "<channel|>"),
    ("<|channel|>analysis", "<|channel|>final<|message|>"),
)

Shown = tuple[Image.Image, Image.Image]


def load(name: str, told: Mapping[str, Any], prompt: str) -> "Loaded":
    """The model, its processor, and the question as the model is asked it.

    Raises:
        JudgeError: if packages are missing, or the model cannot be loaded or read.
    """
    model = told["model"]
    source = model if told["revision"] else str(root() / model)
    safe = {"revision": told["revision"] or "main", "trust_remote_code": False}
    try:
        import torch
        from transformers import AutoModelForImageTextToText, AutoProcessor, GenerationConfig

        device = told["device"]
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        processor = AutoProcessor.from_pretrained(source, **safe)
        processor.tokenizer.padding_side = "left"
        processor.tokenizer.pad_token = processor.tokenizer.pad_token or processor.tokenizer.eos_token
        text = question(processor, prompt, f"judge {name}: {model}") + told["lead"]
        ids = digit_ids(processor.tokenizer, text, f"judge {name}: {model}")
        network, found = AutoModelForImageTextToText.from_pretrained(
            source,
            **safe,
            use_safetensors=True,
            dtype=getattr(torch, told["dtype"]),
            output_loading_info=True,
        )
        if found["missing_keys"]:
            raise JudgeError(
                f"judge {name}: {model} lacks {len(found['missing_keys'])} weights, {min(found['missing_keys'])} "
                "among them, which would be random; fetch it again"
            )
        network.generation_config = GenerationConfig(  # in place of the model's, which would fill every gap
            max_new_tokens=1,
            do_sample=False,
            num_beams=1,
            output_logits=True,  # `scores` would be what penalties and temperature leave of them
            return_dict_in_generate=True,
            pad_token_id=processor.tokenizer.pad_token_id,
        )
        return Loaded(name, processor, network.eval().to(device), text, ids)
    except JudgeError:
        raise
    except ImportError as error:
        raise JudgeError(
            f"judge {name} needs a package that is missing ({_sentence(error)}); pip install 'ask[local]'"
        ) from error
    except Exception as error:  # whatever a config, a tokenizer, a template or a network's files provoke
        raise JudgeError(f"judge {name}: {model} cannot be loaded ({_sentence(error)})") from error


def question(processor: Any, prompt: str, who: str) -> str:
    """The conversation up to where the answer begins; each picture is one placeholder.

    Raises:
        JudgeError: if the template has no room for the prompt, or leaves no open answer.
    """
    template = processor.chat_template or processor.tokenizer.chat_template
    if not template:
        raise JudgeError(f"{who} has no chat template; take a model that was tuned to follow instructions")
    content = [{"type": "text", "text": prompt}, {"type": "image"}, {"type": "image"}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": content}],
        chat_template=None if processor.chat_template else template,
        add_generation_prompt=True,
        **({"enable_thinking": False} if "enable_thinking" in str(template) else {}),
    )
    if prompt not in text:
        raise JudgeError(f"{who} has a chat template that leaves out the prompt; take another model")
    for opening, closing in THOUGHTS:
        if text.rfind(opening) > text.rfind(closing):
            raise JudgeError(
                f"{who} has a chat template that opens a thought ({opening}), with enable_thinking off or without "
                "that switch; take a model that answers at once"
            )
    end = processor.tokenizer.eos_token
    if end and text.rstrip().endswith(end):
        raise JudgeError(f"{who} has a chat template that does not open an answer but ends with {end}")
    return text


def digit_ids(tokenizer: Any, text: str, who: str) -> dict[str, list[int]]:
    """Which tokens stand for each digit: "7" and " 7" are two, and both count.

    Args:
        tokenizer: of the model.
        text: the question; a digit behind it must be a token of its own.
        who: judge and model, for the error.

    Raises:
        JudgeError: if a digit has no token, or merges with the end of the question.
    """
    known = sorted(tokenizer.get_vocab().values())
    ids: dict[str, list[int]] = {digit: [] for digit in DIGITS}
    for token, word in zip(known, tokenizer.batch_decode([[token] for token in known]), strict=True):
        ids.get(word.translate(BLANKS).strip(), []).append(token)
    before = tokenizer(text, add_special_tokens=False)["input_ids"]
    for digit, tokens in ids.items():
        if not tokens:
            raise JudgeError(f"{who} has no single token for the digit {digit}; take another model")
        *kept, last = tokenizer(text + digit, add_special_tokens=False)["input_ids"]
        if kept != before or last not in tokens:
            raise JudgeError(
                f"{who} does not read the digit {digit} behind {text[-12:]!r} as a token of its own; correct lead"
            )
    return ids


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to be asked."""

    name: str  # of the judge
    processor: Any
    network: Any
    text: str  # the question
    ids: Mapping[str, Sequence[int]]  # digit -> its tokens

    def replies(self, shown: Sequence[Shown]) -> list[Reply]:
        """One reply per pair of pictures, from one pass over all of them.

        Raises:
            JudgeError: if they do not fit the device together.
        """
        import torch
        import transformers

        inputs = self._inputs(shown)
        try:
            # rather than a plain forward pass: `generate` counts positions from where the padding ends
            with torch.inference_mode():
                logits = self.network.generate(**inputs).logits[0]  # (n, words)
        except torch.OutOfMemoryError as error:
            raise JudgeError(
                f"judge {self.name}: {len(shown)} pairs at a time do not fit {self.network.device}; lower batch"
            ) from error
        probabilities = logits.cpu().double().softmax(-1).numpy()
        return [
            Reply(
                digits={digit: float(row[list(tokens)].sum()) for digit, tokens in self.ids.items()},
                text=self.processor.tokenizer.decode([int(row.argmax())]),
                provider=f"transformers {transformers.__version__}",
                tokens=int(seen.sum()) + 1,
            )
            for row, seen in zip(probabilities, inputs["attention_mask"], strict=True)
        ]

    def _inputs(self, shown: Sequence[Shown]) -> Mapping[str, Any]:
        tokenizer = self.processor.tokenizer
        begun = bool(tokenizer.bos_token) and self.text.startswith(tokenizer.bos_token)
        inputs = self.processor(
            text=[self.text] * len(shown),
            images=[list(pictures) for pictures in shown],
            padding=True,
            padding_side="left",
            return_tensors="pt",
            add_special_tokens=not begun,  # not a second beginning
        )
        last = tokenizer(self.text, add_special_tokens=False)["input_ids"][-1]
        if not inputs["attention_mask"][:, -1].all() or (inputs["input_ids"][:, -1] != last).any():
            raise JudgeError(
                f"judge {self.name}: the processor does not end every row with the question's end {self.text[-12:]!r} "
                "but pads or closes it, so answers would be read in the wrong place; take another model"
            )
        return inputs.to(self.network.device, self.network.dtype)


def _sentence(error: Exception) -> str:
    """The beginning of an error that tells the whole story at length."""
    return re.split(r"(?<=\w)\.?\s*\n|\. ", str(error).strip())[0][:300]
