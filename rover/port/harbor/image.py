"""What a Dockerfile says of the place where an agent works, without building it.

Its working folder, its variables, the files that it copies there, and, for everything that only a build could tell,
a reason: what an image needs is named, never guessed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rover.port.harbor import shell
from rover.port.harbor.config import MOST_VARIABLES, bad_variable
from rover.port.harbor.dockerfile import Dockerfile, Instruction, pairs, read, replaced, split
from rover.port.harbor.patterns import Ignore, chosen, is_glob
from rover.port.harbor.tree import Item, Tree, check_path
from rover_store.errors import PackageError
from rover_store.files.safe_names import shown

DOCKERFILE = "environment/Dockerfile"
#: files that all COPY and ADD of a Dockerfile may lay down
MOST_COPIED = 200_000
#: files that its instructions may look through, each time that one does
MOST_LOOKED = 4_000_000
#: rules of a .dockerignore times files: each is tried on every folder above too
MOST_RULED = 1_000_000
#: images that are a bare system: what a task finds there, it finds in a sandbox too
PLAIN = frozenset({"debian", "ubuntu", "python", "buildpack-deps", "scratch"})
_ARCHIVE = re.compile(r"\.(tar|tar\.gz|tgz|tar\.bz2|tbz2?|tar\.xz|txz)$")


@dataclass(frozen=True, slots=True)
class Stage:
    """An image as far as it was read. `files` are by absolute path; `reasons` say what is known only to a build."""

    base: str = ""
    workdir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    files: Mapping[str, Item] = field(default_factory=dict)
    #: what makes the image itself necessary
    reasons: tuple[str, ...] = ()
    #: what its build fetches
    fetches: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def image(self, reason: str) -> Stage:
        return replace(self, reasons=(*self.reasons, reason))


def is_plain(image: str) -> bool:
    """Whether an image is a bare system of a kind that a sandbox gives too."""
    name = image.partition("@")[0]
    name = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    for prefix in ("docker.io/", "library/", "public.ecr.aws/docker/library/"):
        name = name.removeprefix(prefix)
    return name in PLAIN


def of_image(image: str, workdir: str, uploaded: Tree) -> Stage:
    """A prebuilt image: loose files of environment/ are put into its working folder when it starts."""
    root = workdir.rstrip("/") or ""
    files = {f"{root}/{path}": item for path, item in uploaded.items()} if workdir else {}
    found = Stage(base=image, workdir=workdir, files=files)
    if not is_plain(image):
        found = found.image(f"what {image} holds")
    if not workdir:
        found = found.image(unnamed(image))
    return found


def unnamed(image: str) -> str:
    return f"the working folder is that of {image}"


def looked_into(stage: Stage, workdir: str, files: Tree) -> Stage:
    """A prebuilt image of which somebody read the working folder. What environment/ uploads lies on top."""
    root = workdir.rstrip("/")
    own = {f"{root}/{path}": item for path, item in files.items()}
    reasons = tuple(reason for reason in stage.reasons if reason != unnamed(stage.base))
    return replace(stage, workdir=root or "/", files={**own, **stage.files}, reasons=reasons)


def of_dockerfile(environment: Tree) -> Stage:
    """The last stage of environment/Dockerfile. PackageError where the file builds nothing."""
    text = read(environment["Dockerfile"].data)
    ignore = environment.get("Dockerfile.dockerignore") or environment.get(".dockerignore")
    rules = Ignore(ignore.data.decode("utf-8", "replace") if ignore else "")
    if len(rules) * len(environment) > MOST_RULED:
        reason = f"{len(rules)} rules for {len(environment)} files are too many"
        raise PackageError("environment/.dockerignore", "", reason)
    context = {path: item for path, item in environment.items() if not rules(path)}
    return _Reader(text, context).run()


class _Reader:
    def __init__(self, text: Dockerfile, context: Tree) -> None:
        self.text = text
        self.context = context
        self.stages: dict[str, Stage] = {}
        self.globals: dict[str, str] = {}
        self.args: dict[str, str] = {}
        self.now = Stage()
        self.copied = 0  # files, by all copies so far
        self.looked = 0  # files that copies went through

    def run(self) -> Stage:
        begun = False
        for one in self.text.instructions:
            if one.name == "FROM":
                self._from(one)
                begun = True
            elif not begun:
                if one.name == "ARG":
                    self._arg(one, self.globals)
            else:
                handler = getattr(self, f"_{one.name.lower()}", None)
                if handler is not None:
                    if len(one.text) > shell.MOST_LINE and one.name != "RUN":
                        raise PackageError(DOCKERFILE, f"line {one.line}", f"is longer than {shell.MOST_LINE >> 10} KB")
                    handler(one)
        _check_kinds(self.now.files)
        return self.now

    def _value(self, text: str) -> tuple[str, bool]:
        return replaced(text, {**self.args, **self.now.env}, self.text.escape)

    def _from(self, one: Instruction) -> None:
        words = split(replaced(one.text, self.globals, self.text.escape)[0], self.text.escape)
        base = words[0] if words else ""
        self.args = {}
        parent = self.stages.get(base.lower())
        self.now = parent or Stage(base=base)
        if parent is None:
            if base == "scratch":
                self.now = replace(self.now, workdir="/")
            elif not is_plain(base):
                self.now = self.now.image(f"what {base or 'its base'} holds (line {one.line})")
        name = words[2].lower() if len(words) == 3 and words[1].lower() == "as" else str(len(self.stages))
        self._name = name
        self.stages[name] = self.now

    def _keep(self, stage: Stage) -> None:
        self.now = self.stages[self._name] = stage

    def _arg(self, one: Instruction, into: dict[str, str] | None = None) -> None:
        target = self.args if into is None else into
        for word in split(one.text, self.text.escape):
            name, equals, value = word.partition("=")
            if equals:
                target[name] = replaced(value, {**target, **self.now.env}, self.text.escape)[0]
            elif name in self.globals:
                target[name] = self.globals[name]

    def _env(self, one: Instruction) -> None:
        env = dict(self.now.env)
        notes = list(self.now.notes)
        for name, value in pairs(one.text, self.text.escape):
            found, whole = self._value(value)
            if why := bad_variable(name, found):
                raise PackageError(DOCKERFILE, f"line {one.line}", why)
            if name == "PATH" or not whole:
                if name != "PATH":
                    notes.append(f"variable {name} rests on one of the image (line {one.line})")
                continue
            env[name] = found
            if sum(map(len, env)) + sum(map(len, env.values())) > MOST_VARIABLES:
                reason = f"sets more than {MOST_VARIABLES >> 10} KB of variables"
                raise PackageError(DOCKERFILE, f"line {one.line}", reason)
        self._keep(replace(self.now, env=env, notes=tuple(notes)))

    def _workdir(self, one: Instruction) -> None:
        path, whole = self._value(" ".join(split(one.text, self.text.escape)))
        if not whole:
            self._keep(self.now.image(f"WORKDIR {one.text} rests on a variable of the image (line {one.line})"))
        joined = posixpath.normpath(posixpath.join(self.now.workdir or "/", path or "."))
        self._keep(replace(self.now, workdir="/" + joined.lstrip("/")))

    def _user(self, one: Instruction) -> None:
        self._keep(replace(self.now, user=self._value(one.text.strip())[0]))

    def _run(self, one: Instruction) -> None:
        words = one.words()
        script = "\n".join(h.text for h in one.heredocs) or (" ".join(words) if words else one.text)
        shown = " ".join(script.split())[:60]
        if shell.is_harmless(script):
            return
        stage = self.now.image(f"RUN {shown} (line {one.line})")
        if shell.fetching(script):
            stage = replace(stage, fetches=(*stage.fetches, f"RUN {shown} (line {one.line})"))
        self._keep(stage)

    def _volume(self, one: Instruction) -> None:
        self._keep(replace(self.now, notes=(*self.now.notes, f"VOLUME {one.text} (line {one.line})")))

    def _onbuild(self, one: Instruction) -> None:
        self._keep(replace(self.now, notes=(*self.now.notes, f"ONBUILD {one.text} (line {one.line})")))

    def _shell(self, one: Instruction) -> None:
        """Only RUN cares."""

    def _copy(self, one: Instruction) -> None:
        self._bring(one, adds=False)

    def _add(self, one: Instruction) -> None:
        self._bring(one, adds=True)

    def _bring(self, one: Instruction, *, adds: bool) -> None:
        said = f"{one.name} {' '.join(one.text.split())[:60]} (line {one.line})"
        words = [self._value(word)[0] for word in (one.words() or split(one.text, self.text.escape))]
        odd = {name for name, _ in one.flags} - {"from", "chown", "chmod", "link"}
        if odd or len(words) < 2:
            self._keep(self.now.image(f"{said}: --{min(odd)} is not read here" if odd else f"{said}: names no target"))
            return
        *sources, target = words
        place = "/" + posixpath.normpath(posixpath.join("/", self.now.workdir, target)).lstrip("/")
        target_dir = target.endswith(("/", "/.", "/..")) or target in (".", "..") or self._is_folder(place)
        documents = {h.name: Item(h.text.encode()) for h in one.heredocs}
        found: dict[str, Item] = {}
        many = len(sources) > 1 or any(is_glob(s) for s in sources)
        for source in sources:
            if source.lstrip("<-").strip("'\"") in documents and source.startswith("<<"):
                name = source.lstrip("<-").strip("'\"")
                found[posixpath.join(place, name) if target_dir or many else place] = documents[name]
                continue
            if adds and (re.match(r"(https?|ftp|git|ssh)://|git@", source) or source.endswith(".git")):
                stage = self.now.image(said)
                self._keep(replace(stage, fetches=(*stage.fetches, said)))
                return
            taken = self._taken(one, source)
            if taken is None or (adds and any(_ARCHIVE.search(path) for path in taken)):
                self._keep(self.now.image(said))
                return
            alone = len(taken) == 1 and next(iter(taken)) == self._clean(source)
            self.copied += len(taken)
            if self.copied > MOST_COPIED:
                raise PackageError(DOCKERFILE, f"line {one.line}", f"copies more than {MOST_COPIED} files")
            origin = self._origin(one)
            for path, inner in taken.items():
                at = place if alone and not target_dir and not many else posixpath.join(place, inner)
                if why := _unkept(at):
                    self._keep(self.now.image(f"{said}: {why}"))
                    return
                found[at] = origin[path]
        if chmod := one.flag("chmod"):
            found = {p: replace(i, executable=_runs(chmod, i.executable)) for p, i in found.items()}
        self._keep(replace(self.now, files={**self.now.files, **found}))

    def _is_folder(self, place: str) -> bool:
        """Whether a folder lies there already: what is copied to it is put into it."""
        return place in ("/", self.now.workdir) or any(path.startswith(f"{place}/") for path in self.now.files)

    @staticmethod
    def _clean(source: str) -> str:
        source = source.strip("/")
        while source.startswith("./"):
            source = source[2:]
        return source

    def _origin(self, one: Instruction) -> Mapping[str, Item]:
        stage = one.flag("from")
        if not stage:
            return self.context
        found = self.stages.get(stage.lower())
        return {path.lstrip("/"): item for path, item in found.files.items()} if found else {}

    def _taken(self, one: Instruction, source: str) -> dict[str, str] | None:
        """What a source names; None where only a build can tell."""
        stage = one.flag("from")
        if stage and (stage.lower() not in self.stages or self.stages[stage.lower()].reasons):
            return None
        if not stage and ".." in source.split("/"):
            return None
        origin = self._origin(one)
        self.looked += len(origin) + len(self.now.files)
        if self.looked > MOST_LOOKED:
            reason = f"looks with those before it through more than {MOST_LOOKED} files"
            raise PackageError(DOCKERFILE, f"line {one.line}", reason)
        taken = chosen(source, origin)
        return taken or None


def _unkept(place: str) -> str:
    """Why no workspace can hold a file there; empty where one can."""
    try:
        check_path(place.strip("/") or "/")
    except PackageError as error:
        return error.reason
    return ""


def _check_kinds(files: Mapping[str, Item]) -> None:
    """PackageError for a file that is a folder too, which no build makes."""
    for path in files:
        above = posixpath.dirname(path)
        while len(above) > 1:
            if above in files:
                raise PackageError(DOCKERFILE, "", f"makes {shown(above)} both a file and a folder")
            above = posixpath.dirname(above)


def _runs(mode: str, before: bool) -> bool:
    if re.fullmatch(r"[0-7]{3,4}", mode):
        return bool(int(mode, 8) & 0o111)
    return "+x" in mode or before
