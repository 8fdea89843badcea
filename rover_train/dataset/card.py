"""README.md of a dataset folder: what it holds, of which revision, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rover_train.dataset.folder import PARQUET


@dataclass(frozen=True, slots=True)
class CardInfo:
    """What a card says beside the number of rows. `versions`: package -> component -> tree id."""

    title: str
    revision: str
    source: str = ""
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: further lines: what -> how much
    facts: Mapping[str, str | int] = field(default_factory=dict)
    #: further data sets in the folder: name -> parquet file
    others: Mapping[str, str] = field(default_factory=dict)


#: packages whose versions a card lists; report.json has all of them
_LISTED = 200


def text(info: CardInfo, *, rows: int) -> str:
    """The card as Markdown. Its head serves `load_dataset` on a hub: on a disk that refuses a folder that
    `load_from_disk` opens, whatever the card says."""
    configs = {"default": PARQUET, **info.others}
    head = ["---", "configs:"]
    for name, file in configs.items():
        head += [f"- config_name: {name}", f"  data_files: {file}"]
    lines = [
        *head, "---", "", f"# {info.title}", "",
        f"{rows} rows of revision `{info.revision}`{', from ' + info.source if info.source else ''}.", "",
        'Open this folder with `datasets.load_from_disk("FOLDER")` or `datasets.load_dataset("FOLDER/parquet")`;',
        "once it is on a hub, `datasets.load_dataset` takes the name it has there.", "",
        *(f"- {what}: {value}" for what, value in info.facts.items()), "",
        "## Component versions", "",
        "| package | context | task | harness | verifier |", "| --- | --- | --- | --- | --- |",
        *_versions(info.versions), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _versions(versions: Mapping[str, Mapping[str, str]]) -> list[str]:
    names = sorted(versions)
    parts = ("context", "task", "harness", "verifier")
    out = []
    for name in names[:_LISTED]:
        cells = (f"`{versions[name].get(part, 'none')[:12]}`" for part in parts)
        out.append(f"| {name} | {' | '.join(cells)} |")
    more = len(names) - _LISTED
    return [*out, f"\nand {more} more, each row names its own."] if more > 0 else out
