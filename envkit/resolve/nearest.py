"""What would have to be different: changes of a question, the least first, each with the plan that it really leads to."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from envkit.model import Change, Dotted, DriverFacts, Gpu, Judged, Kind, Matrix, Nearest, Os, Plan, Scheme, Target, Verdict
from envkit.plan import digest
from envkit.resolve.candidates import python_key, pythons_of
from envkit.resolve.ranking import best, verdict_of
from envkit.resolve.rules import python_distance
from envkit.resolve.target import Question, card_name, with_driver, with_toolkit
from envkit.resolve.wishes import BackendWish, TorchWish, platform_of, version

MOST = 6

Consider = Callable[[Question, bool], tuple[Judged, ...]]
Solve = Callable[[Question], Plan | None]
Step = Iterator[tuple[Change, Plan]]


class Search:
    """One search for the nearest changes; `consider` judges a question (in a hurry or wholly), `solve` makes its plan."""

    def __init__(self, question: Question, judged: Sequence[Judged], matrix: Matrix, consider: Consider, solve: Solve) -> None:
        self.question, self.judged, self.matrix, self.consider, self.solve = question, judged, matrix, consider, solve

    def run(self) -> tuple[Nearest, ...]:
        """The changes that lead to a plan, the least first, without two that lead to the same one."""
        question, judged = self.question, self.judged
        found: dict[str, Nearest] = {}
        self._take(found, self._by_tag(question))
        self._take(found, self._by_torch(question))
        self._take(found, self._by_python(question, judged))
        self._take(found, self._by_setting(question, judged))
        self._take(found, self._by_driver(question, judged))
        self._take(found, self._by_toolkit(question, judged))
        self._take(found, self._by_os(question, judged))
        if not found:
            self._take(found, self._by_two(question))
        self._take(found, self._by_card(question))
        others: dict[str, Nearest] = {}
        self._take(others, self._by_scheme(question))
        # However many smaller changes there are, another scheme (the CPU) stays in sight.
        room = MOST - min(len(others), 2)
        kept = list(found.values())[:room]
        kept += [each for key, each in others.items() if key not in found][: MOST - len(kept)]
        return tuple(sorted(kept, key=_place))

    @staticmethod
    def _take(found: dict[str, Nearest], step: Step) -> None:
        for change, plan in step:
            found.setdefault(digest(plan), Nearest(change=change, plan=plan))

    # ---- one change --------------------------------------------------------------------------------------------

    def _by_tag(self, question: Question) -> Step:
        wish = question.backend
        if wish.tag or wish.version is not None:
            plan = self.solve(replace(question, backend=BackendWish(text=wish.name, name=wish.name)))
            if plan:
                yield Change(kind="tag", text=_tag_text(plan), value=plan.backend_tag), plan

    def _by_torch(self, question: Question) -> Step:
        if not question.torch.specifier:
            return
        relaxed = self.consider(replace(question, torch=TorchWish()), True)
        accepted = [each.candidate.release.version for each in relaxed if each.verdict in question.accept]
        if not accepted:
            return
        closest = min(dict.fromkeys(accepted), key=self._distance(question))
        for text in dict.fromkeys((closest, accepted[0])):
            plan = self.solve(replace(question, torch=TorchWish(text=text, specifier=f"=={text}")))
            if plan:
                yield Change(kind="torch", text=_torch_text(plan), value=text), plan

    def _distance(self, question: Question) -> Callable[[str], tuple[float, bool]]:
        """How many releases lie between one and the one that was asked for; of two, the newer is nearer."""
        every = sorted({version(r.version) for f in self.matrix.frameworks.values() for r in f.releases})
        numbers = re.search(r"\d+(?:\.\d+)*", question.torch.specifier, re.ASCII)
        wanted = version(numbers[0] if numbers else "0")
        place = bisect(every, wanted) - 0.5
        same = wanted.release[:2]

        def distance(text: str) -> tuple[float, bool]:
            this = version(text)
            near = abs(every.index(this) - place) if this in every else float(len(every))
            return (near - len(every) if this.release[:2] == same else near), this < wanted

        return distance

    def _by_python(self, question: Question, judged: Sequence[Judged]) -> Step:
        wanted = question.target.pythons
        if not wanted or not _held_back_by(judged, {"python", "libraries", "companions", "offered"}):
            return
        free = wanted[0].endswith("t")
        there = {text for each in judged for text in pythons_of(each.candidate.release, each.candidate.build)}
        choices = [text for text in there if text.endswith("t") <= free and text not in wanted]
        best_had = self.solve(_with_pythons(question, None))
        found = False
        for text in sorted(choices, key=lambda each: (python_distance(each, wanted[0]), python_key(each))):
            plan = self.solve(_with_pythons(question, (text,)))
            # The nearest Python, and the nearest one with which the newest release can be had.
            newest = plan is not None and best_had is not None and plan.framework_version == best_had.framework_version
            if plan and (newest or not found):
                yield Change(kind="python", text=f"use Python {text}: --python {text}", value=text), plan
                found = True
            if newest:
                return

    def _by_setting(self, question: Question, judged: Sequence[Judged]) -> Step:
        for verdict in (Verdict.COMMUNITY, Verdict.OVERRIDE, Verdict.UNKNOWN):
            chosen = best(judged, frozenset((verdict,)))
            if verdict in question.accept or chosen is None:
                continue
            plan = self.solve(replace(question, accept=question.accept | {verdict}))
            if plan:
                own = next((answer.change for answer in chosen.answers if answer.kind is Kind.SETTING), None)
                yield (own if own and verdict is Verdict.OVERRIDE else _ACCEPT[verdict]), plan

    def _by_driver(self, question: Question, judged: Sequence[Judged]) -> Step:
        # Only candidates that nothing but the driver keeps from being accepted; ranking put the newest release first.
        waiting = [each for each in judged if _changes_of(each, "driver") and _otherwise(each) in question.accept]
        wanted = list(dict.fromkeys(_strictest(_changes_of(each, "driver")) for each in waiting))
        if not waiting:
            return
        vendor = waiting[0].candidate.backend.vendor
        # The smallest step, and the one that the newest release needs.
        smallest = sorted(wanted, key=lambda changes: (len(changes), [_driver_key(change) for change in changes]))
        for choices in (smallest, wanted):
            for changes in choices:
                plan = self.solve(replace(question, target=_driven(question.target, vendor, changes)))
                if plan:
                    yield _joined(changes), plan
                    break

    def _by_toolkit(self, question: Question, judged: Sequence[Judged]) -> Step:
        for each in judged:
            changes = _changes_of(each, "toolkit")
            if not changes or _otherwise(each) not in question.accept:
                continue
            plan = self.solve(replace(question, target=with_toolkit(question.target, each.candidate.backend.vendor)))
            if plan:
                yield replace(changes[0], text=f"install {_toolkit_text(plan, each)}", value=plan.backend_version), plan
            return

    def _by_os(self, question: Question, judged: Sequence[Judged]) -> Step:
        platform = question.target.platform
        tried = set()
        for each in judged:
            for change in _changes_of(each, "os"):
                row = self.matrix.platforms.get(change.value.partition("/")[0])
                if row is None or change.value in tried:
                    continue
                tried.add(change.value)
                moved = replace(platform_of(row, platform.arch), os=platform.os)
                plan = self.solve(replace(question, target=replace(question.target, platform=moved)))
                if plan:
                    yield change, plan

    def _by_card(self, question: Question) -> Step:
        target = question.target
        there = target.accelerators or ()
        kinds = dict.fromkeys((card.vendor, card.arch) for card in there)
        found: list[tuple[Change, Plan]] = []
        for vendor, arch in kinds:
            out = tuple(card for card in there if (card.vendor, card.arch) == (vendor, arch))
            if not any(card.vendor == vendor and card.arch != arch for card in there):
                continue
            left = tuple(card for card in there if not any(card is each for each in out))
            changed = replace(target, accelerators=left, hidden=target.hidden + out)
            plan = self.solve(replace(question, target=changed))
            if plan:
                found.append((_hide(out, plan), plan))
        # Where several cards may go, the one that holds the release back goes first.
        yield from sorted(found, key=lambda each: version(each[1].framework_version), reverse=True)

    def _by_scheme(self, question: Question) -> Step:
        os = question.target.platform.os
        schemes = [s for s in self.matrix.schemes.values() if s.os is os or (os is Os.WSL2 and s.os is Os.LINUX)]
        wanted = question.schemes[0].framework if question.schemes else question.framework
        same = [s for s in schemes if wanted in ("", s.framework)]
        backends = self.matrix.backends
        for scheme in sorted(same, key=lambda s: backends[s.backend].device == "cpu"):
            if scheme.name == question.scheme:
                continue
            keep = question.backend.name in ("", scheme.backend)
            asked = replace(question.target, asked=(scheme.name,))
            other = replace(
                question,
                schemes=(scheme,),
                scheme=scheme.name,
                target=asked,
                backend=question.backend if keep else BackendWish(),
            )
            plan = self.solve(other)
            if plan:
                yield Change(kind="scheme", text=self._scheme_text(scheme), value=scheme.name), plan

    def _scheme_text(self, scheme: Scheme) -> str:
        backend = self.matrix.backends[scheme.backend]
        what = "the CPU" if backend.device == "cpu" else backend.title or backend.name
        return f"use {what}: --scheme {scheme.name}"

    # ---- two changes -------------------------------------------------------------------------------------------

    def _by_two(self, question: Question) -> Step:
        """A release, index or Python given up, and one further change: only where no single change is enough."""
        given_up: list[tuple[str, Question, Callable[[Plan], str]]] = []
        if question.torch.specifier:
            given_up.append(("torch", replace(question, torch=TorchWish()), _torch_text))
        if question.backend.tag or question.backend.version is not None:
            name = question.backend.name
            given_up.append(("tag", replace(question, backend=BackendWish(text=name, name=name)), _tag_text))
        if question.target.pythons:
            given_up.append(("python", _with_pythons(question, None), _python_text))
        for kind, relaxed, text in given_up:
            judged = self.consider(relaxed, False)
            if kind != "python":
                yield from _and(text, self._by_python(relaxed, judged))
            yield from _and(text, self._by_setting(relaxed, judged))
            yield from _and(text, self._by_driver(relaxed, judged))
            yield from _and(text, self._by_os(relaxed, judged))
        if question.torch.specifier and given_up[1:]:
            for _, relaxed, text in given_up[1:]:
                for change, plan in self._by_torch(relaxed):
                    yield replace(change, text=f"{change.text}, and {text(plan)}"), plan


_ORDER = ("tag", "torch", "python", "setting", "driver", "toolkit", "os", "card", "scheme")


def _place(nearest: Nearest) -> tuple[bool, int]:
    """Where a change stands: the least first, a gamble on what is not known behind all that is sure."""
    return nearest.plan.verdict is Verdict.UNKNOWN, _ORDER.index(nearest.change.kind)


_ACCEPT = {
    Verdict.COMMUNITY: Change(
        kind="setting", text="take what works without the vendor's promise: --accept community", value="community"
    ),
    Verdict.OVERRIDE: Change(kind="setting", text="take what works with a setting: --accept override", value="override"),
    Verdict.UNKNOWN: Change(kind="setting", text="take what is not known to work: --accept unknown", value="unknown"),
}


def _and(text: Callable[[Plan], str], step: Step) -> Step:
    for change, plan in step:
        yield replace(change, text=f"{change.text}, and {text(plan)}"), plan


def _toolkit_text(plan: Plan, judged: Judged) -> str:
    return f"{judged.candidate.backend.title} {plan.backend_version}"


def _tag_text(plan: Plan) -> str:
    return f"use another build: --backend {plan.backend_tag}"


def _torch_text(plan: Plan) -> str:
    return f"use {plan.framework_name} {plan.framework_version}: --torch {plan.framework_version}"


def _python_text(plan: Plan) -> str:
    return f"use Python {plan.python}: --python {plan.python}"


def _hide(out: Sequence[Gpu], plan: Plan) -> Change:
    words = " ".join(f"{key}={text}" for key, text in plan.env.items() if "VISIBLE" in key or "ORDER" in key)
    names = ", ".join(dict.fromkeys(card_name(card) for card in out))
    return Change(kind="card", text=f"hide the {names}" + (f": {words}" if words else ""), value=out[0].arch)


def _with_pythons(question: Question, pythons: tuple[str, ...] | None) -> Question:
    return replace(question, target=replace(question.target, pythons=pythons))


def _held_back_by(judged: Sequence[Judged], rules: set[str]) -> bool:
    """Whether some candidate is rejected by these rules alone."""
    return any(
        {answer.rule for answer in each.answers if answer.kind is Kind.REJECTED} <= rules
        for each in judged
        if each.verdict is Verdict.UNSUPPORTED
    )


def _changes_of(judged: Judged, kind: str) -> tuple[Change, ...]:
    """The changes of that kind that a candidate needs, where it needs no others; () where it does."""
    rejected = [answer for answer in judged.answers if answer.kind is Kind.REJECTED]
    changes = [answer.change for answer in rejected if answer.change and answer.change.kind == kind]
    return tuple(changes) if changes and len(changes) == len(rejected) else ()


def _otherwise(judged: Judged) -> Verdict:
    """The verdict that a candidate would have without what rejects it."""
    return verdict_of(answer for answer in judged.answers if answer.kind is not Kind.REJECTED)


def _strictest(changes: Sequence[Change]) -> tuple[Change, ...]:
    """One driver version at most (the newest floor, unless an older branch is the point), then the module."""
    modules = [change for change in changes if module_kind_of(change)]
    older = [change for change in changes if change.text.startswith("use a ")]
    newer = sorted((c for c in changes if c not in modules and c not in older), key=_driver_key, reverse=True)
    return (*(older[:1] or newer[:1]), *modules[:1])


def module_kind_of(change: Change) -> str:
    """The kind of kernel module that a change asks for, "" where it asks for a version."""
    return change.value if change.value in ("open", "proprietary") else ""


def _driver_key(change: Change) -> tuple[int, ...]:
    return () if module_kind_of(change) or not change.value else Dotted(change.value).key


_LICENSES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}


def _driven(target: Target, vendor: str, changes: Sequence[Change]) -> Target:
    for change in changes:
        kind = module_kind_of(change)
        if kind:
            facts = replace(target.drivers.get(vendor, DriverFacts()), license=_LICENSES[kind])
            target = replace(target, drivers={**target.drivers, vendor: facts})
        else:
            target = with_driver(target, vendor, Dotted(change.value) if change.value else None)
    return target


def _joined(changes: Sequence[Change]) -> Change:
    text = ", and ".join(change.text for change in changes)
    value = next((change.value for change in changes if not module_kind_of(change)), changes[0].value)
    return Change(kind="driver", text=text, value=value)
