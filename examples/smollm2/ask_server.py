"""Ask a vLLM server by token ids, and hold its log-probabilities against the merged checkpoint in this process.

Usage: ask_server.py URL NAME CHECKPOINT. Exit 1 where they differ by more than 1e-3.
"""

from __future__ import annotations

import json
import sys
import urllib.request

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ASK = ' In `ledger.csv` set `paid` where `id` is 78 to "6". Leave all else as it is.'


def main(url: str, name: str, folder: str) -> int:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": ASK}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    body = {"model": name, "prompt": prompt, "max_tokens": 24, "temperature": 0, "logprobs": 0}
    body["return_token_ids"] = True
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        choice = json.load(answer)["choices"][0]
    ids, theirs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
    ours = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()
    worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print(tokenizer.decode(ids))
    print(f"{len(ids)} tokens; log-probabilities differ by at most {worst:.2g}")
    return int(worst > 1e-3)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
