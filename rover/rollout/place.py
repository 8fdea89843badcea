"""Where a package's boxes stand, and whether a runtime gives what the package needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

from rover.rollout.env import Env, below
from rover.sandbox.protocol import Place, Runtime, lacking
from rover_store.records import Limits

#: what the files of an environment folder are called in a package
ENVIRONMENT = "context/environment/"


def place_of(env: Env, runtime: Runtime, beside: Place | None = None) -> Place | None:
    """The place of a package's rollouts; None for a plain one. `beside` is what a policy needs there.

    An image is used where the runtime has images; a package that cannot do without says so in `requires`.
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
    return Place(
        links=((said.workdir, ""),) if said.workdir else (),
        image=said.image if images else "",
        build=build,
        dockerfile=dockerfile if build else "Dockerfile",
        env=tuple(sorted(said.env.items())),
    )


def refusal(env: Env, runtime: Runtime) -> str:
    """Why a runtime may not run this package, in one line; empty where it may."""
    missing = lacking(env.harness.requires or (), runtime)
    if not missing:
        return ""
    return f"refused: the package needs {', '.join(missing)}, which the {runtime.kind} sandbox does not give here"


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
