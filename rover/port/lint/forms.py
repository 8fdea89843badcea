"""What the secrets of certain services look like, so that they are found, and repeated in no message."""

from __future__ import annotations

import re

_KNOWN = (
    ("an API key", re.compile(r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,})")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("a Slack token", re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{20,}")),
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,}")),
    ("a Google API key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----")),
    ("a signed web token", re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}")),
)
#: words in a command behind which something secret stands
_BEHIND = re.compile(r"(?i)((?:bearer|basic|token|passw(?:or)?d|secret|api[_-]?key)[=: ]+['\"]?)([^\s'\"]{6,})")
_USER = re.compile(r"(://[^/\s:@]*):[^/\s@]+@")


def kind_of(value: str) -> str:
    """What a value is by its form; empty where it is nothing known."""
    return next((what for what, form in _KNOWN if form.search(value)), "")


def masked(text: str) -> str:
    """The text without what looks like a secret."""
    for _, form in _KNOWN:
        text = form.sub("***", text)
    return _USER.sub(r"\1:***@", _BEHIND.sub(r"\1***", text))
