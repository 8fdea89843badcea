"""Generation for rollouts: many lanes at once, turn by turn with the harness, token ids in and out.

`sampler` decodes with the model in this process, `vllm` asks a server; both serve the sessions of `policy`.
"""
