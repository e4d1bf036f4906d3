"""Vision-language models of real architectures, shrunk to 100,000 random weights, made on the spot.

Their weights are large enough for every picture and every word to change the answer.
"""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3ImageProcessor,
    Idefics3Processor,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

from ask.judges import DIGITS

MARKS = [
    "<|pad|>",
    "<|start|>",
    "<|end|>",
    "<|see|>",
    "<|seen|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<image>",
]
MARKS += ["<end_of_utterance>", "<fake_token_around_image>", "<global-img>"]
MARKS += [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
TEMPLATE = (
    "{% for turn in messages %}<|start|>{{ turn['role'] }}\n{% for part in turn['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}PICTURE{% endif %}{% endfor %}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def tokenizer(left_out: str = "") -> PreTrainedTokenizerFast:
    """Bytes, and a space with a digit behind it as one token, which makes two tokens for each digit."""
    letters = [letter for letter in sorted(pre_tokenizers.ByteLevel.alphabet()) if letter not in left_out]
    merges = [("Ġ", digit) for digit in DIGITS if digit not in left_out]
    words = letters + ["".join(merge) for merge in merges]
    made = Tokenizer(models.BPE(vocab={word: n for n, word in enumerate(words)}, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    marks = {"eos_token": "<|end|>", "pad_token": "<|pad|>", "extra_special_tokens": MARKS}
    return PreTrainedTokenizerFast(tokenizer_object=made, padding_side="right", **marks)


def save(folder, network, processor, *, digits: float = 4.0):
    """Weights of unit gain, but larger ones for the digits' logits, whose probability is then most of all."""
    torch.manual_seed(0)
    ids = [n for word, n in processor.tokenizer.get_vocab().items() if word.strip("Ġ") in list(DIGITS)]
    with torch.no_grad():
        for weight in network.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight[0].numel() ** -0.5)
        network.lm_head.weight[ids] *= digits
    network.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def qwen(folder, words=None, **shape):
    """Rotary positions in three dimensions, as many tokens as the picture is large."""
    words = words or tokenizer()
    ids = dict(zip(MARKS, words.convert_tokens_to_ids(MARKS), strict=True))
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(min_pixels=28 * 28, max_pixels=16 * 28 * 28),
        tokenizer=words,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=TEMPLATE.replace("PICTURE", "<|see|><|image_pad|><|seen|>"),
    )
    small = {"hidden_size": 32, "intermediate_size": 64}
    vision = {"depth": 2, "num_heads": 4, "out_hidden_size": 32, "fullatt_block_indexes": [1]}
    config = Qwen2_5_VLConfig(
        text_config={
            **small,
            "vocab_size": len(words),
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4},
            "bos_token_id": None,
            "eos_token_id": ids["<|end|>"],
        },
        vision_config=small | vision,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|see|>"],
        vision_end_token_id=ids["<|seen|>"],
    )
    return save(folder, Qwen2_5_VLForConditionalGeneration(config), processor, **shape)


def idefics(folder):
    """Pictures cut into tiles, batches filled up with empty tiles."""
    words = tokenizer()
    processor = Idefics3Processor(
        Idefics3ImageProcessor(size={"longest_edge": 112}, max_image_size={"longest_edge": 56}),
        words,
        image_seq_len=4,  # (56 / 14)² patches, four to a token
        chat_template=TEMPLATE.replace("PICTURE", "<image>"),
    )
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = {"model_type": "llama", "vocab_size": len(words), "pad_token_id": words.pad_token_id}
    config = Idefics3Config(
        text_config=small | text,
        vision_config=small | {"image_size": 56, "patch_size": 14},
        image_token_id=words.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=words.pad_token_id,
    )
    return save(folder, Idefics3ForConditionalGeneration(config), processor)
