"""The contract evaluated by code outside the verifier, on answers of the second query engine.

`contract` is what others use; the rest runs inside the sandbox, on plain JSON and hostile files, and shares nothing
with rover.verify but the meaning of the rules.
"""
