"""What a suite is made of: a spec, read from a TOML file or taken from the built-in ones.

    name = "mine"
    packages = 7                      # base packages of each workspace
    families = ["summarise"]          # none: every family that is installed
    kinds = []                        # injected kinds; none: every kind
    without = ["flaky_verifier"]      # kinds that are left out
    decoys = 0.16                     # share of sound packages with failing agents
    unfixable = 0.06                  # share of defects that no proposal can repair
    single = 5                        # among the defects: how many are of one kind,
    pair = 3                          # of two,
    triple = 1                        # of three at once
    siblings = 3                      # sound packages beside the broken one, at most
    agents = 0.3                      # share of the defects that agents ran into

    [workspaces]
    development = ["penguins"]        # names of built-in workspaces, or folders beside this file
    held-out = ["flights"]

The two splits share no workspace, and no seed.
"""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, ValidationError

import rover
from rover.bench.suites.manifest import Split
from rover_store.errors import NotFound, PackageError, UsageError
from rover_store.ids import Name, digest
from rover_store.records.base import Part, Record

BUILT_IN = ("controlled", "agents")
Share = Annotated[float, Field(ge=0, le=1)]


class Workspaces(Part):
    """Folders of real files for each split."""

    development: tuple[str, ...] = ()
    held_out: Annotated[tuple[str, ...], Field(alias="held-out")] = ()


class Spec(Record):
    """A suite's specification."""

    kind: ClassVar[str] = "suite-spec"

    name: Name
    workspaces: Workspaces
    packages: Annotated[int, Field(ge=1, le=100, description="base packages of each workspace")] = 7
    families: Annotated[tuple[str, ...], Field(description="families of tasks; none: all installed")] = ()
    kinds: Annotated[tuple[str, ...], Field(description="injected kinds; none: all")] = ()
    without: Annotated[tuple[str, ...], Field(description="injected kinds that are left out")] = ()
    decoys: Annotated[Share, Field(description="share of sound packages with failing agents")] = 0.16
    unfixable: Annotated[Share, Field(description="share of defects that no proposal can repair")] = 0.06
    single: Annotated[float, Field(ge=0, description="parts of the defects with one kind")] = 5
    pair: Annotated[float, Field(ge=0, description="with two kinds")] = 3
    triple: Annotated[float, Field(ge=0, description="with three kinds")] = 1
    siblings: Annotated[int, Field(ge=0, le=8, description="sound packages beside the broken one, at most")] = 3
    agents: Annotated[Share, Field(description="share of the defects that agents ran into")] = 0.3

    def of(self, split: Split) -> tuple[str, ...]:
        """Workspaces of a split."""
        return self.workspaces.development if split == "development" else self.workspaces.held_out

    def checked(self, where: str) -> Spec:
        """Itself, where it makes sense. PackageError names the field."""
        both = set(self.workspaces.development) & set(self.workspaces.held_out)
        if both:
            raise PackageError(where, "workspaces", f"{sorted(both)[0]} stands in both splits")
        for split, names in (("development", self.workspaces.development), ("held-out", self.workspaces.held_out)):
            odd = next((n for i, n in enumerate(names) if not n.strip() or n in names[:i]), None)
            if odd is not None:
                raise PackageError(where, f"workspaces.{split}", f"{odd!r} is {'named twice' if odd else 'no folder'}")
        if self.kinds and not set(self.kinds) - set(self.without):
            raise PackageError(where, "without", "every kind of kinds is left out")
        if self.decoys + self.unfixable > 1:
            raise PackageError(where, "decoys", "decoys and unfixable cases are more than all cases")
        if self.decoys + self.unfixable < 1 and not self.single + self.pair + self.triple:
            raise PackageError(where, "single", "one of single, pair and triple has to be more than 0")
        return self


class Folder(Part):
    """One workspace of a suite: its name, and where its files lie on this machine."""

    name: str
    path: Path
    license: str = ""


def load(spec: str) -> tuple[Spec, Path | None]:
    """A built-in spec by its name, or one from a TOML file, with the folder that its paths start from."""
    if spec in BUILT_IN:
        data = files("rover.bench.suites").joinpath(f"{spec}.toml").read_bytes()
        return parse(data, f"{spec}.toml"), None
    path = Path(spec)
    if not path.is_file():
        raise NotFound("spec", spec, hint=f"built in: {', '.join(BUILT_IN)}; or the name of a TOML file")
    return parse(path.read_bytes(), spec), path.absolute().parent


def parse(data: bytes, where: str) -> Spec:
    """A spec from TOML. PackageError names file, field and reason."""
    try:
        value = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PackageError(where, "", f"not valid TOML ({' '.join(str(error).split())[:200]})") from None
    try:
        return Spec.model_validate(value).checked(where)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(p) for p in first["loc"])
        raise PackageError(where, field, " ".join(first["msg"].split())[:200]) from None


def folders(spec: Spec, split: Split, base: Path | None) -> tuple[Folder, ...]:
    """Where the files of the split's workspaces lie. UsageError where it has none, NotFound for a folder missing."""
    names = spec.of(split)
    if not names:
        raise UsageError(f"the spec {spec.name} names no workspace for the {split} split")
    return tuple(_folder(name, base) for name in names)


def _folder(name: str, base: Path | None) -> Folder:
    root = Path(rover.__file__).parent
    for shelf in (root / "bench" / "workspaces", root.parent / "examples" / "workspaces"):
        path = shelf / name / "files"
        if "/" not in name and path.is_dir():
            return Folder(name=name, path=path, license=_license(path.parent / "README.md"))
    path = (base or Path()) / name
    if not path.is_dir():
        raise NotFound("workspace", name, hint="a built-in one, or a folder, relative to the spec's file")
    return Folder(name=_slug(path), path=path)


def _slug(path: Path) -> str:
    parts = [p for p in path.absolute().parts if p not in ("/", "files")]
    return re.sub(r"[^a-z0-9]+", "-", parts[-1].lower() if parts else "").strip("-")[:40] or "workspace"


def _license(readme: Path) -> str:
    """What the page beside a built-in workspace says of its licence."""
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    found = re.search(r"(?m)^Licen[cs]e: *(.+)$", text)
    return found[1].strip() if found else ""


def base_seed(split: Split, seed: int) -> int:
    """The seed of the base packages: even ones are for development, odd ones held out, so that none is in both.

    Specs with the same workspaces share their packages, and so need not build them twice.
    """
    drawn = int(digest(["suite", split, seed])[:10], 16)
    return 2 * drawn + (split == "held-out")
