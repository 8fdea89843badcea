"""Load a checkpoint with transformers alone and let it write the first turn of a task.

Usage: ask.py FOLDER
"""

from __future__ import annotations

import sys

from transformers import AutoModelForCausalLM, AutoTokenizer

ASK = 'In `ledger.csv` set `paid` where `id` is 78 to "6". Leave all else as it is.'


def main(folder: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    messages = [{"role": "user", "content": f" {ASK}"}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    out = model.generate(**ids, max_new_tokens=40, do_sample=False)
    print(tokenizer.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True).strip())


if __name__ == "__main__":
    main(*sys.argv[1:])
