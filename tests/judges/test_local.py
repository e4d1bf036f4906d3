"""A judge on this machine: tiny models of real architectures, loaded from a folder like any other."""

import hashlib
import json
import shutil
import sys
from dataclasses import replace

import huggingface_hub
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_vlm import idefics, qwen, tokenizer
from transformers import (
    AutoModelForImageTextToText,
    AutoProcessor,
)

from ask.datasets.pictures import open_pictures
from ask.judges import DIGITS, JudgeError, Pair, vlm
from ask.judges.local import LEAST, Local, fitted
from ask.judges.verdict import expected

SIZES = {"wide": (100, 60), "small": (40, 40), "tall": (90, 200), "narrow": (33, 120)}
ASKED = [("wide", "small"), ("tall", "narrow"), ("small", "small"), ("narrow", "wide"), ("wide", "narrow")]
PROMPT = "How alike are these two in breed?"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders of models; tests that change one copy it first."""
    folder = tmp_path_factory.mktemp("models")
    return {kind.__name__: kind(folder / kind.__name__) for kind in (qwen, idefics)}


@pytest.fixture
def copied(made, tmp_path):
    return shutil.copytree(made["qwen"], tmp_path / "model")


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # its variable is read at import


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for seed, (name, (width, height)) in enumerate(SIZES.items()):
        pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return open_pictures(folder)


def judge(pictures, model, prompt=PROMPT, criterion="breed", **entry) -> Local:
    entry = {"kind": "local", "model": str(model), "dtype": "float32", **entry}
    return Local("eye", entry, criterion, pictures, [f"{name}.png" for name in SIZES], prompt=prompt)


def pair(first: str, second: str) -> Pair:
    return Pair(first, second, *(list(SIZES).index(name) for name in (first, second)))


def probabilities(replies) -> np.ndarray:  # (n, 9)
    return np.array([[reply.digits[digit] for digit in DIGITS] for reply in replies])


def by_hand(pictures, folder, first: str, second: str) -> np.ndarray:  # (words,)
    """Softmax at the end of one question, alone, without padding, by a plain forward pass."""
    processor = AutoProcessor.from_pretrained(folder)
    network = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    shown = [{"type": "image", "image": pictures.load(f"{name}.png")} for name in (first, second)]
    inputs = processor.apply_chat_template(
        [{"role": "user", "content": [{"type": "text", "text": PROMPT}, *shown]}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    with torch.no_grad():
        return network(**inputs).logits[0, -1].double().softmax(-1).numpy()


def refusal(call, *arguments, **settings) -> str:
    with pytest.raises(JudgeError) as refused:
        call(*arguments, **settings)
    return str(refused.value)


def with_template(folder, old: str, new: str) -> None:
    file = folder / "chat_template.jinja"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize("kind", ["qwen", "idefics"])
def test_digits_are_what_the_softmax_of_a_lone_question_gives_their_tokens(pictures, made, kind):
    vocabulary = tokenizer().get_vocab()
    answers = judge(pictures, made[kind]).answer([pair(*names) for names in ASKED])
    for names, reply in zip(ASKED, answers, strict=True):
        row = by_hand(pictures, made[kind], *names)
        summed = [row[vocabulary[digit]] + row[vocabulary["Ġ" + digit]] for digit in DIGITS]
        assert probabilities([reply])[0] == pytest.approx(summed, abs=1e-5)
        assert reply.text == tokenizer().decode([row.argmax()])


@pytest.mark.parametrize("kind", ["qwen", "idefics"])
def test_a_batch_of_questions_of_many_lengths_equals_one_by_one(pictures, made, kind):
    asked = [pair(*names) for names in ASKED]
    eye = judge(pictures, made[kind])
    together, alone = eye.answer(asked), [eye.answer([one])[0] for one in asked]
    assert len({reply.tokens for reply in together}) > 2
    assert [reply.tokens for reply in together] == [reply.tokens for reply in alone]
    assert probabilities(together) == pytest.approx(probabilities(alone), abs=1e-5)
    assert [reply.text for reply in together] == [reply.text for reply in alone]


@pytest.mark.parametrize("kind", ["qwen", "idefics"])
def test_pictures_and_their_order_count(pictures, made, kind):
    asked = [pair("wide", "tall"), pair("tall", "wide"), pair("wide", "small")]
    one, other, third = probabilities(judge(pictures, made[kind]).answer(asked))
    assert abs(one - other).max() > 0.01
    assert abs(one - third).max() > 0.01


def test_both_spellings_of_a_digit_add(pictures, made):
    eye = judge(pictures, made["qwen"])
    eye.settle([])
    vocabulary = tokenizer().get_vocab()
    assert eye._loaded.ids == {digit: [vocabulary[digit], vocabulary["Ġ" + digit]] for digit in DIGITS}


def test_scores_lie_on_the_scale_and_the_digits_hold_no_more_than_everything(pictures, made):
    found = probabilities(judge(pictures, made["qwen"]).answer([pair(*names) for names in ASKED]))
    assert ((expected(found) >= 1) & (expected(found) <= 9)).all()
    assert ((found.sum(-1) > 0.5) & (found.sum(-1) < 1)).all()


def test_a_tokenizer_that_pads_on_the_right_is_turned_round(pictures, made):
    assert json.loads((made["qwen"] / "tokenizer_config.json").read_text())["padding_side"] == "right"
    eye = judge(pictures, made["qwen"])
    eye.settle([])
    assert eye._loaded.processor.tokenizer.padding_side == "left"


def test_a_processor_that_insists_on_the_right_is_refused(pictures, made):
    class Stubborn:
        def __init__(self, processor):
            self.processor, self.tokenizer = processor, processor.tokenizer

        def __call__(self, **told):
            return self.processor(**told | {"padding_side": "right"})

    eye = judge(pictures, made["qwen"])
    eye.settle([])
    eye._loaded = replace(eye._loaded, processor=Stubborn(eye._loaded.processor))
    told = refusal(eye.answer, [pair(*names) for names in ASKED])
    assert told.startswith("judge eye: the processor does not end every row with the question's end")


def test_how_a_model_would_sample_does_not_touch_the_probabilities(pictures, made, copied):
    wanted = judge(pictures, made["qwen"]).answer([pair("wide", "tall")])
    sampling = {"do_sample": True, "temperature": 0.1, "top_k": 1, "repetition_penalty": 5.0, "num_beams": 3}
    sampling |= {"suppress_tokens": [tokenizer().get_vocab()[digit] for digit in DIGITS]}
    (copied / "generation_config.json").write_text(json.dumps(sampling))
    assert judge(pictures, copied).answer([pair("wide", "tall")]) == wanted


def test_a_digit_without_a_token_is_refused(pictures, tmp_path):
    eye = judge(pictures, qwen(tmp_path / "model", tokenizer(left_out="7")))
    told = f"judge eye: {tmp_path / 'model'} has no single token for the digit 7; take another model"
    assert refusal(eye.settle, []) == told


def test_a_lead_begins_the_answer_and_must_leave_digits_whole(pictures, made):
    eye = judge(pictures, made["qwen"], lead="(")
    eye.settle([])
    assert eye._loaded.text.endswith("<|start|>assistant\n(")
    told = refusal(judge(pictures, made["qwen"], lead="It is ").settle, [])
    assert "does not read the digit 1 behind" in told
    assert told.endswith("as a token of its own; correct lead")


def test_a_thought_is_turned_off_where_the_template_can(pictures, copied):
    switch = "{% if enable_thinking is false %}<think></think>{% else %}<think>{% endif %}"
    with_template(copied, "assistant\n", "assistant\n" + switch)
    eye = judge(pictures, copied)
    eye.settle([])
    assert eye._loaded.text.endswith("assistant\n<think></think>")


def test_a_template_that_opens_a_thought_is_refused(pictures, copied):
    with_template(copied, "assistant\n", "assistant\n<think>\n")
    assert "has a chat template that opens a thought (<think>)" in refusal(judge(pictures, copied).settle, [])


def test_a_template_that_opens_no_answer_is_refused(pictures, copied):
    with_template(copied, "<|start|>assistant\n", "")
    told = refusal(judge(pictures, copied).settle, [])
    assert told.endswith("has a chat template that does not open an answer but ends with <|end|>")


def test_a_template_without_the_prompt_is_refused(pictures, copied):
    with_template(copied, "{{ part['text'] }}", "Hello")
    assert "has a chat template that leaves out the prompt" in refusal(judge(pictures, copied).settle, [])


def test_a_model_that_answers_in_digits_is_accepted(pictures, made):
    judge(pictures, made["qwen"]).settle([pair(*names) for names in ASKED])


def test_a_model_that_is_about_to_write_something_else_is_refused(pictures, tmp_path):
    eye = judge(pictures, qwen(tmp_path / "model", digits=0.01))
    told = refusal(eye.settle, [pair("wide", "tall")])
    assert "% on digits and would write '" in told
    assert told.endswith("ask for the digit only, or set lead to what comes before it")


def test_a_model_whose_answers_depend_on_the_batch_is_refused(pictures, made, monkeypatch):
    answer = vlm.Loaded.replies

    def crowded(self, shown):
        alike = {"digits": dict.fromkeys(DIGITS, 0.1)} if len(shown) > 1 else {}
        return [replace(reply, **alike) for reply in answer(self, shown)]

    monkeypatch.setattr(vlm.Loaded, "replies", crowded)
    told = refusal(judge(pictures, made["qwen"]).settle, [pair("wide", "tall")])
    assert told.endswith("in a batch, at most 0.3 is rounding; set batch: 1, or dtype: float32")
    judge(pictures, made["qwen"], batch=1).settle([pair("wide", "tall")])


def test_all_pairs_are_answered_batch_by_batch(pictures, made):
    batches = []
    eye = judge(pictures, made["qwen"], batch=2)
    eye.ask(
        [pair(*names) for names in ASKED], lambda asked, replies: batches.append((len(asked), len(replies)))
    )
    assert batches == [(2, 2), (2, 2), (1, 1)]


def test_each_picture_is_opened_once(pictures, made, monkeypatch):
    opened = []
    open_one = pictures.load
    monkeypatch.setattr(pictures, "load", lambda path: opened.append(path) or open_one(path))
    eye = judge(pictures, made["qwen"])
    for names in ASKED:
        eye.answer([pair(*names)])
    assert sorted(opened) == sorted(f"{name}.png" for name in SIZES)


def test_large_pictures_shrink_and_tiny_ones_grow():
    assert fitted(Image.new("RGB", (1000, 500)), 512).size == (512, 256)
    assert fitted(Image.new("RGB", (1, 1)), 512).size == (LEAST, LEAST)
    assert fitted(Image.new("RGB", (5000, 10)), 512).size == (512, LEAST)
    assert fitted(Image.new("RGB", (300, 200)), 512).size == (300, 200)


def test_the_identity_is_whatever_determines_an_answer_and_nothing_else(pictures, made, copied):
    plain = judge(pictures, made["qwen"]).identity
    assert json.loads(json.dumps(plain)) == plain
    assert {"kind": "local", "name": "eye", "criterion": "breed"}.items() <= plain.items()
    assert judge(pictures, made["qwen"], batch=1, device="cpu").identity == plain
    assert judge(pictures, copied).identity == plain, "the same model in another folder"
    others = [{"prompt": "Which?"}, {"criterion": "pose"}, {"dtype": "bfloat16"}, {"side": 64}, {"lead": "("}]
    for other in others:
        assert judge(pictures, **{"model": made["qwen"]} | other).identity != plain
    with_template(copied, "assistant", "judge")
    assert judge(pictures, copied).identity != plain


def test_a_model_of_the_hub_is_its_commit_and_is_not_fetched_before_it_is_asked(pictures):
    commits = ["0123456789" * 4, "9876543210" * 4]
    found = [judge(pictures, "some/model", revision=commit).identity["model"] for commit in commits]
    assert found == [f"some/model@{commit}" for commit in commits]
    told = refusal(judge(pictures, "some/model", revision=commits[0]).settle, [])
    assert told.startswith("judge eye: some/model cannot be loaded (")
    told = refusal(judge, pictures, "some/model", revision="main")
    assert told.startswith("revision of judge eye must be a commit of some/model, 40 hex digits")


def test_the_prompt_of_the_entry_comes_first_then_the_criterions_then_a_general_one(pictures, made):
    entry = {"kind": "local", "model": str(made["qwen"])}
    own = entry | {"prompt": "Is the {criterion} alike?"}
    told = [(own, PROMPT), (entry, PROMPT), (entry, None)]
    asked = [Local("eye", e, "breed", pictures, [], prompt=p).identity["prompt"] for e, p in told]
    assert asked[:2] == ["Is the breed alike?", PROMPT]
    assert asked[2].startswith("Compare the two images by breed")


def test_a_missing_folder_is_told_in_one_sentence(pictures, tmp_path):
    told = refusal(judge, pictures, tmp_path / "nowhere")
    assert told == (
        f"judge eye: there is no folder {tmp_path / 'nowhere'}; correct model, or if it is one of the hub, add its "
        "commit as revision"
    )


def test_weights_that_could_run_code_are_refused(pictures, copied):
    (copied / "model.safetensors").rename(copied / "pytorch_model.bin")
    assert refusal(judge, pictures, copied).endswith("holds no .safetensors file; convert the weights first")


def test_weights_that_are_missing_are_not_made_up(pictures, copied):
    weights = load_file(copied / "model.safetensors")
    weights.pop("visual.patch_embed.proj.weight")
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    told = refusal(judge(pictures, copied).settle, [])
    assert told == (
        f"judge eye: {copied} lacks 1 weights, model.visual.patch_embed.proj.weight among them, which would be "
        "random; fetch it again"
    )


def test_a_model_that_brings_its_own_code_is_refused(pictures, copied):
    config = json.loads((copied / "config.json").read_text())
    config |= {"model_type": "homemade", "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
    (copied / "config.json").write_text(json.dumps(config))
    (copied / "evil.py").write_text(f"open({str(copied / 'ran')!r}, 'w')\n")
    assert refusal(judge(pictures, copied).settle, []).startswith(f"judge eye: {copied} cannot be loaded (")
    assert not (copied / "ran").exists()


def test_a_missing_package_is_named_with_what_to_install(pictures, made, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    told = refusal(judge(pictures, made["qwen"]).settle, [])
    assert told.startswith("judge eye needs a package that is missing (import of transformers halted")
    assert told.endswith("pip install 'ask[local]'")


def test_too_large_a_batch_says_what_to_do(pictures, made, monkeypatch):
    eye = judge(pictures, made["qwen"])
    eye.settle([])

    def full(**_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB")

    monkeypatch.setattr(eye._loaded.network, "generate", full)
    told = refusal(eye.answer, [pair(*names) for names in ASKED])
    assert told == "judge eye: 5 pairs at a time do not fit cpu; lower batch"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"temperature": 1}, "judge eye has no setting 'temperature'; a local judge knows model, revision"),
        ({"batch": 0}, "batch of judge eye must be a whole number >= 1, but is 0"),
        ({"side": 20}, "side of judge eye must be at least 28 pixels, but is 20"),
        ({"dtype": "int8"}, "dtype of judge eye must be one of bfloat16, float16, float32, but is 'int8'"),
        ({"lead": None}, "lead of judge eye must be text, but is None"),
        ({"model": None}, "model of judge eye must be text, but is None"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused(pictures, entry, told):
    with pytest.raises(JudgeError) as refused:
        Local("eye", {"model": "models/some"} | entry, "breed", pictures, [])
    assert str(refused.value).startswith(told)


def test_the_identity_under_this_rule_version_is_pinned(pictures):
    found = judge(pictures, "some/model", revision="0" * 40).identity
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]
    assert digest == "649ea2095ba7b7fc", (
        "stored answers would no longer be found: raise RULE on purpose, then pin this"
    )
