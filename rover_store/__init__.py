"""A content-addressed store of versioned task packages, in a real git repository. It works without the rest of rover.

    from rover_store import Store
    store = Store.open()

Everything that `__all__` names is public and stays. A name is imported when it is first used, so that opening a store
costs what it needs and no more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rover_store.commits import Commit as Commit
    from rover_store.diffs.walk import contents as contents
    from rover_store.errors import Ambiguous as Ambiguous
    from rover_store.errors import LostRace as LostRace
    from rover_store.errors import NotFound as NotFound
    from rover_store.errors import PackageError as PackageError
    from rover_store.errors import RoverError as RoverError
    from rover_store.errors import StoreError as StoreError
    from rover_store.errors import UsageError as UsageError
    from rover_store.evidence import Evidence as Evidence
    from rover_store.history.log import LogEntry as LogEntry
    from rover_store.layout import PackageEntry as PackageEntry
    from rover_store.store import Store as Store
    from rover_store.transfer.transfer import clone as clone
    from rover_store.trees import TreeItem as TreeItem
    from rover_store.write import Content as Content
    from rover_store.write import Transaction as Transaction

#: public name -> module that has it
_HOME = {
    "Ambiguous": "errors",
    "Commit": "commits",
    "Content": "write",
    "Evidence": "evidence",
    "LogEntry": "history.log",
    "LostRace": "errors",
    "NotFound": "errors",
    "PackageEntry": "layout",
    "PackageError": "errors",
    "RoverError": "errors",
    "Store": "store",
    "StoreError": "errors",
    "Transaction": "write",
    "TreeItem": "trees",
    "UsageError": "errors",
    "clone": "transfer.transfer",
    "contents": "diffs.walk",
}

__all__ = [
    "Ambiguous",
    "Commit",
    "Content",
    "Evidence",
    "LogEntry",
    "LostRace",
    "NotFound",
    "PackageEntry",
    "PackageError",
    "RoverError",
    "Store",
    "StoreError",
    "Transaction",
    "TreeItem",
    "UsageError",
    "clone",
    "contents",
]


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'rover_store' has no attribute {name!r}")
    value: object = getattr(import_module(f"rover_store.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
