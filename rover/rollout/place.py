"""Where a package's boxes stand, and whether a runtime gives what the package needs."""

from __future__ import annotations

import threading
import weakref
from dataclasses import replace
from typing import TypedDict

from rover.rollout.env import Env, below
from rover.sandbox.places import RESERVED_OF_TASKS, clash, where_not
from rover.sandbox.protocol import Images, Place, Runtime, lacking
from rover_store.errors import SandboxError
from rover_store.ids import digest
from rover_store.records import Limits

#: what the files of an environment folder are called in a package
ENVIRONMENT = "context/environment/"

#: images that a runtime was asked for, by the context that wants them: a name may come to mean another image, and a
#: Dockerfile gives another one each time that it is built, so each is settled once
_SETTLED: weakref.WeakKeyDictionary[Images, dict[str, str]] = weakref.WeakKeyDictionary()
_SETTLING = threading.Lock()


def place_of(env: Env, runtime: Runtime, beside: Place | None = None) -> Place | None:
    """The place of a package's rollouts; None for a plain one. `beside` is what a policy needs there.

    An image is used where the runtime has images; a package that cannot do without says so in `requires`. It is named
    by its id. SandboxError where it is not to be had.
    """
    found = _own(env, runtime)
    if beside is None:
        return found
    if found is None:
        return beside
    return replace(
        found,
        links=(*found.links, *beside.links),
        shows=(*found.shows, *beside.shows),
        env=(*found.env, *beside.env),
    )


def _own(env: Env, runtime: Runtime) -> Place | None:
    said = env.context.environment
    if said is None:
        return None
    images = "image" in getattr(runtime, "offers", ())
    build: tuple[tuple[str, bytes], ...] = ()
    if images and not said.image and said.dockerfile:
        build = tuple(below(env.files, ENVIRONMENT).items())
    dockerfile = f"context/{said.dockerfile}".removeprefix(ENVIRONMENT)
    place = Place(
        links=((said.workdir, ""),) if said.workdir else (),
        image=said.image if images else "",
        build=build,
        dockerfile=dockerfile if build else "Dockerfile",
        env=tuple(sorted(said.env.items())),
    )
    if not (place.image or place.build) or not isinstance(runtime, Images):
        return place
    return replace(place, image=_settled(runtime, env.context_id, place), build=(), dockerfile="Dockerfile")


def _settled(runtime: Images, context: str, place: Place) -> str:
    """The id of the image of a place, the same one for every rollout of this runtime."""
    known = _SETTLED.get(runtime, {}).get(context)
    if known is None:
        with _SETTLING:  # nothing is built twice
            ids = _SETTLED.setdefault(runtime, {})
            known = ids.get(context)
            if known is None:
                known = ids[context] = runtime.image_id(place)
    return known


def runtime_at(env: Env, runtime: Runtime, plain: str) -> str:
    """The id of what a package's rollouts run in: `plain`, the runtime's own, and the image where there is one.

    Where the image is not to be had, an id of nothing that ran: those rollouts are spoilt, and never kept.
    """
    try:
        place = _own(env, runtime)
    except SandboxError:
        return digest([plain, "no image"])
    return digest([plain, place.image]) if place is not None and place.image else plain


def graded_in(env: Env, runtime: Runtime, plain: str) -> str:
    """The same of what its verifier runs in: a program where the agent worked, checks in a plain box."""
    return plain if env.verifier.program is None else runtime_at(env, runtime, plain)


def refusal(env: Env, runtime: Runtime) -> str:
    """Why a runtime may not run this package, in one line; empty where it may."""
    said = env.context.environment
    workdir = said.workdir if said is not None else ""
    # wherever a workspace can stand elsewhere, so can the files of a program
    own = ("workdir",) if workdir or env.verifier.program else ()
    missing = lacking(tuple(dict.fromkeys((*(env.harness.requires or ()), *own))), runtime)
    if missing:
        return f"refused: the package needs {', '.join(missing)}, which the {runtime.kind} sandbox does not give here"
    images = said is not None and (said.image or said.dockerfile) and "image" in getattr(runtime, "offers", ())
    taken = getattr(runtime, "reserved_of_images" if images else "reserved", ())
    if not workdir or not clash(workdir, (*taken, *RESERVED_OF_TASKS)):
        return ""
    who = where_not(workdir) if where_not(workdir).startswith("no ") else f"the {runtime.kind} sandbox cannot"
    return f"refused: the package needs its workspace at {workdir}, which {who} have"


def is_plain(env: Env) -> bool:
    """Whether rollouts of a package can share a box: it has no place, no program and no servers of its own."""
    return not (env.context.environment or env.verifier.program or env.harness.mcp_servers or env.harness.requires)


class Setting(TypedDict):
    """What a grading takes beside the verifier and the state."""

    limits: Limits | None
    place: Place | None


def setting(env: Env, runtime: Runtime, limits: Limits | None = None) -> Setting:
    """Where and within which limits a verifier runs: a program where the agent worked, checks in a plain box."""
    if env.verifier.program is None:
        return {"limits": limits, "place": None}
    return {"limits": limits or env.harness.limits, "place": place_of(env, runtime)}
