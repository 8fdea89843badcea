"""Single rollouts: each turn's progress, credit, prerequisites and cost beside its text."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rover_train.report.markup import Html, join, tag, text
from rover_train.report.record import Sample, SampleCall, SampleTurn

#: characters of a text that are shown
MOST_TEXT = 4000


def rollout(sample: Sample, number: int, *, opened: bool = False) -> Html:
    """One rollout, folded. `number` tells its anchors from those of others."""
    kind = "good" if sample.outcome == "passed" else "bad"
    head = tag(
        "summary", tag("b", f"step {sample.step}"), " · ", sample.package, " · ", tag("b", sample.outcome, class_=kind),
        f" · reward {sample.reward:.3f} · advantage {sample.advantage:+.3f} · {len(sample.turns)} turns",
        "" if sample.gate else " · G = 0", "" if sample.intact else " · H = 0",
    )  # fmt: skip
    most = max((abs(t.advantage) for t in sample.turns), default=0.0)
    inside = [tag("h3", "Instruction"), _shown(sample.instruction)]
    inside += [_turn(turn, at, sample, number, most) for at, turn in enumerate(sample.turns)]
    if sample.final_message and (not sample.turns or sample.turns[-1].message != sample.final_message):
        inside += [tag("h3", "Last message"), _shown(sample.final_message)]
    return tag("details", head, tag("div", *inside), open=opened)


def _turn(turn: SampleTurn, at: int, sample: Sample, number: int, most: float) -> Html:
    rows = [
        ("advantage", f"{turn.advantage:+.3f}", None),
        ("of the rollout", f"{sample.advantage:+.3f}", "soft"),
        ("progress p", _signed(turn.progress), _tone(turn.progress)),
        ("credit δ", _signed(turn.credit), _tone(turn.credit)),
        ("cost c", f"{turn.cost:g}", "bad" if turn.cost else "soft"),
    ]
    shown = tag("table", *(tag("tr", tag("td", name, class_="soft"), tag("td", v, class_=c)) for name, v, c in rows))
    uses = [tag("a", str(u), href=f"#{_anchor(number, u)}") for u in turn.uses]
    used = tag("div", "used turns ", join(uses, ", ")) if uses else tag("div", "used no earlier turn", class_="soft")
    withheld = tag("div", "withheld: H = 0", class_="bad") if turn.credit and not sample.intact else ""
    worth = tag("div", tag("b", f"turn {at}"), _bar(turn.advantage, most), shown, withheld, used, class_="worth")
    return tag("div", worth, tag("div", *_said(turn)), class_="turn", id=_anchor(number, at))


def _said(turn: SampleTurn) -> Iterator[Html]:
    if turn.message:
        yield _shown(turn.message)
    for call in turn.calls:
        yield _call(call)
    if not turn.message and not turn.calls:
        yield tag("p", "nothing was said", class_="soft")


def _call(call: SampleCall) -> Html:
    failed = call.status != "ok"
    name = tag("b", call.tool), (tag("span", " error", class_="bad") if failed else "")
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    answer = _shown(call.output, "out") if call.output else ""
    return tag("div", tag("div", *name), _shown(arguments), answer, class_="call")


def _shown(said: str, kind: str | None = None) -> Html:
    left = len(said) - MOST_TEXT
    more = tag("span", f"\n[{left} more characters]", class_="soft") if left > 0 else ""
    return tag("pre", text(said[:MOST_TEXT]), more, class_=kind)


def _bar(value: float, most: float) -> Html:
    """The advantage as a bar from the middle, to the longest of the rollout."""
    wide = 50 * abs(value) / most if most else 0.0
    side = "right:50%" if value < 0 else "left:50%"
    kind = "minus" if value < 0 else None
    return tag("span", tag("i", class_=kind, style=f"{side};width:{wide:.1f}%"), tag("s"), class_="bar")


def _signed(value: float | None) -> str:
    return "none" if value is None else f"{value:+.3f}" if value else "0"


def _tone(value: float | None) -> str:
    return "soft" if not value else "good" if value > 0 else "bad"


def _anchor(number: int, turn: int) -> str:
    return f"r{number}-t{turn}"
