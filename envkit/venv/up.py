"""The embedded default: from a machine as it is to a proven environment in DIR, and a second time without doing anything."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from envkit.errors import EnvkitError, StepFailed, UsageError
from envkit.model import Facts, Matrix, Plan, Proof, Wish
from envkit.plan import digest, from_document
from envkit.sources import Sources, installation, partners
from envkit.venv import making
from envkit.venv.contents import Damage, distributions, inspect, python_of, remove_rest, site_packages, tops
from envkit.venv.deciding import Decision, decide, look_again, machine_document, read_wish, wish_document
from envkit.venv.folder import CHANGING, COMPLETE, Lock, MAKING, State, clear, guests, make_folder, own, read_state, remember, remove_empty, settle, take_away, write_state
from envkit.venv.making import DiskFull, Work
from envkit.venv.pythons import Interpreter, choices

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How `up` works, besides what is wished for."""

    upgrade: bool = False
    limit: float = 300.0  # of the proof
    wait: float = 5.0  # for another one at work on the same folder
    show: Callable[[bytes], None] | None = None  # draws uv's progress on a terminal
    tell_plan: Callable[[Plan], None] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UpResult:
    """What became of it."""

    directory: Path
    plan: Plan
    proof: Proof
    did: str  # made, changed, repaired, nothing


def up(
    directory: Path,
    matrix: Matrix | Callable[[], Matrix],
    wish: Wish,
    facts: Facts,
    sources: Sources | Callable[[], Sources],
    *,
    tell: Tell = lambda text: None,
    options: Options | None = None,
    cwd: Path | None = None,
) -> UpResult:
    """Makes `directory` the environment that `wish` and this machine call for, and proves it.

    What the wish leaves open keeps what the environment was made with. An environment that is whole and as wished is only
    proved. Raises EnvkitError; what was half made then is taken away, or marked so that the next call makes it whole.
    """
    run = _Run(directory=settle(directory), matrix=matrix, facts=facts, sources=sources, tell=tell, options=options or Options())
    plan, did = run.bring_about(wish)
    remember(run.directory, Path.cwd() if cwd is None else cwd)
    tell(f"verifying: {plan.framework_name} computes on {plan.device}")
    from envkit.verify import verify_venv

    proof = verify_venv(plan, run.directory, limit=run.options.limit)
    return UpResult(directory=run.directory, plan=plan, proof=proof, did=did)


@dataclass(kw_only=True)
class _Run:
    directory: Path
    matrix: Matrix | Callable[[], Matrix]
    facts: Facts
    sources: Sources | Callable[[], Sources]
    tell: Tell
    options: Options

    def _matrix(self) -> Matrix:
        if not isinstance(self.matrix, Matrix):
            self.matrix = self.matrix()
        return self.matrix

    def _sources(self) -> Sources:
        if not isinstance(self.sources, Sources):
            self.sources = self.sources()
            for note in self.sources.notes:
                self.tell(f"warning: {note}")
        return self.sources

    def bring_about(self, wish: Wish) -> tuple[Plan, str]:
        """The plan that the environment then holds, and what was done."""
        state = read_state(self.directory)
        decision: Decision | None = None
        if state is None:
            # Nothing is made before it is known that something can be.
            decision = self._decide(wish)
        made = make_folder(self.directory)
        try:
            lock = Lock(self.directory, wait=self.options.wait).take()
        except BaseException:
            # Only what is still empty: the one who holds the lock may work in there already.
            remove_empty(made)
            raise
        with lock:
            # Another one may have made it while this one waited.
            state = read_state(self.directory)
            if state is None:
                settle(self.directory)
            with self._cleaning(made):
                return self._work(wish, state, decision, lock)

    def _decide(self, wish: Wish) -> Decision:
        decision = decide(self._matrix(), wish, self.facts, self._sources(), making.find_uv(), self.tell)
        _hold_to_constraints(decision.plan, self._sources())
        if self.options.tell_plan:
            self.options.tell_plan(decision.plan)
        return decision

    @contextlib.contextmanager
    def _cleaning(self, made: list[Path]) -> Iterator[None]:
        """Takes a half-made environment away when making it fails; one that was whole before stays, marked."""
        try:
            yield
        except BaseException as fault:
            state = read_state(self.directory)
            if state is None or state.state == MAKING:
                kept = making.keep_log(self.directory)
                take_away(self.directory, made)
                if isinstance(fault, EnvkitError):
                    _point_to(fault, str(own(self.directory) / "install.log"), str(kept or ""))
            if isinstance(fault, OSError):
                raise making.explain(self.directory, fault) from fault
            raise

    def _work(self, wish: Wish, state: State | None, decision: Decision | None, lock: Lock) -> tuple[Plan, str]:
        if state is None or state.state == MAKING:
            wished = _kept(wish, state, self.tell) if state else wish
            if decision is None or wished != wish:
                decision = self._decide(wished)
            if state is not None:
                self.tell(f"{self.directory} was left half made; making it anew")
            return self._make(wished, decision, lock), "made"
        wished = _kept(wish, state, self.tell)
        plan = self._recorded(state)
        if plan is not None and self._is_same(wished, plan, state) and not self.options.upgrade:
            damage = inspect(self.directory, plan, state)
            if state.state == COMPLETE and not damage.words:
                self.tell(f"{self.directory} is as wished: {plan.framework_package.requirement}, Python {plan.python}")
                return plan, "nothing"
            return self._repair(wished, plan, state, damage, lock), "repaired"
        decision = self._decide(wished)
        if plan is not None and digest(plan) == digest(decision.plan) and state.state == COMPLETE:
            damage = inspect(self.directory, plan, state)
            if not damage.words:
                self.tell(f"{self.directory} has it already")
                write_state(self.directory, replace(state, wish=wish_document(wished), machine=machine_document(self.facts)))
                return plan, "nothing"
        return self._change(wished, decision, state, lock), "changed"

    def _is_same(self, wish: Wish, plan: Plan, state: State) -> bool:
        """Whether neither the wish nor what the plan depends on has changed since."""
        then, now = dict(state.machine), machine_document(self.facts)
        if plan.backend_name == "cpu" and wish.scheme == plan.scheme:
            # Asked for by name: no accelerator and no driver would make it another.
            for key in ("accelerators", "drivers"):
                then.pop(key, None)
                now.pop(key, None)
        return wish_document(wish) == dict(state.wish) and then == now

    def _recorded(self, state: State) -> Plan | None:
        try:
            plan = from_document(making.document_of(own(self.directory) / "plan.json"))  # type: ignore[arg-type]
        except ValueError:
            return None
        return plan if digest(plan) == state.plan else None

    # ---- doing ---------------------------------------------------------------------------------------------------

    def _state(self, word: str, wish: Wish, plan: Plan, parts: tuple[str, ...], old: State | None = None) -> State:
        there = distributions(self.directory) if word == COMPLETE else dict(old.installed) if old else {}
        names = [package.name for package in plan.packages]
        top = tops(self.directory, names) if word == COMPLETE else dict(old.tops) if old else {}
        return State(
            state=word,
            wish=wish_document(wish),
            machine=machine_document(self.facts),
            plan=digest(plan),
            partners=parts,
            installed=there,
            tops=top,
        )

    def _job(self, decision: Decision, parts: tuple[str, ...], lock: Lock) -> Work:
        return Work(
            directory=self.directory,
            plan=decision.plan,
            installation=installation(self._sources(), decision.plan, decision.found, parts),
            python=decision.python,
            lock=lock,
            uv=making.find_uv(),
            tell=self.tell,
            show=self.options.show,
        )

    def _make(self, wish: Wish, decision: Decision, lock: Lock) -> Plan:
        plan = decision.plan
        # The marker comes first: from here on the folder is ours, and known not to be whole.
        write_state(self.directory, self._state(MAKING, wish, plan, ()))
        clear(self.directory)
        parts = partners(self._sources(), plan, decision.found)
        work = self._job(decision, parts, lock)
        making.write_records(self.directory, plan, work.installation)
        self.tell(f"making {self.directory} with Python {plan.python}")
        making.make(work)
        self._install(work)
        making.add_pip(work)
        return self._complete(wish, work, parts)

    def _complete(self, wish: Wish, work: Work, parts: tuple[str, ...]) -> Plan:
        making.finish(work)
        write_state(self.directory, self._state(COMPLETE, wish, work.plan, parts))
        return work.plan

    def _install(self, work: Work, damage: Damage | None = None, *, everything: bool = False) -> None:
        pins = ", ".join(package.requirement for package in work.plan.packages)
        self.tell(f"installing {pins}")
        damage = damage or Damage()
        making.install(work, reinstall=damage.packages, corrupt=damage.corrupt, everything=everything)

    def _repair(self, wish: Wish, plan: Plan, state: State, damage: Damage, lock: Lock) -> Plan:
        """Makes an environment whole again that was damaged, or left in the midst of a change."""
        if state.state == CHANGING:
            self.tell(f"{self.directory} was left in the midst of a change; finishing it")
        for word in damage.words:
            self.tell(f"repairing: {word}")
        python = self._python(plan)
        decision = Decision(plan=plan, python=python, found=look_again(self._matrix(), plan, self._sources()))
        return self._alter(wish, decision, state, damage, lock, everything=state.state == CHANGING)

    def _python(self, plan: Plan) -> Interpreter:
        return next(choices(making.find_uv(), plan.python), Interpreter(version=plan.python))

    def _change(self, wish: Wish, decision: Decision, state: State, lock: Lock) -> Plan:
        """Installs another plan over the one that is there."""
        have, want = python_of(self.directory), decision.plan.python
        if have and have != want:
            self._may_rebuild(state, f"Python {have}", f"Python {want}")
            self.tell(f"{self.directory} was made with Python {have}; making it anew with {want}")
            return self._make(wish, decision, lock)
        before, after = self._recorded(state), decision.plan.framework_package
        if before is not None and before.framework_package.name != after.name:
            # Nobody would remove the old framework and what it brought along; some even share their files.
            held = before.framework_package.requirement
            self._may_rebuild(state, held, after.requirement)
            self.tell(f"{self.directory} was made with {held}; making it anew with {after.requirement}")
            return self._make(wish, decision, lock)
        return self._alter(wish, decision, state, Damage(), lock, everything=state.state == CHANGING)

    def _may_rebuild(self, state: State, have: str, want: str) -> None:
        """Another Python or framework means another environment; what the user put into this one must not be lost unasked."""
        added = sorted(name for name in distributions(self.directory) if name not in state.installed)
        added += guests(self.directory)
        if added:
            shown = ", ".join(added[:5]) + (f" and {len(added) - 5} more" if len(added) > 5 else "")
            raise UsageError(
                f"{self.directory} was made with {have}, {want} is wanted now, "
                f"and it holds what envkit did not install: {shown}",
                hint="make another environment beside it, or remove this one first",
            )

    def _alter(self, wish: Wish, decision: Decision, state: State, damage: Damage, lock: Lock, *, everything: bool) -> Plan:
        parts = partners(self._sources(), decision.plan, decision.found)
        work = self._job(decision, parts, lock)
        write_state(self.directory, self._state(CHANGING, wish, decision.plan, parts, state))
        making.write_records(self.directory, decision.plan, work.installation)
        if damage.python or site_packages(self.directory) is None:
            making.make(work)
        remove_rest(self.directory, state.tops, damage.packages)
        self._install(work, damage, everything=everything)
        return self._complete(wish, work, parts)


def _kept(wish: Wish, state: State, tell: Tell) -> Wish:
    """The wish, with what it leaves open taken from the one that the environment was made for."""
    old = read_wish(state.wish)
    if (wish.scheme and wish.scheme != old.scheme) or (wish.framework and wish.framework != old.framework):
        # Another scheme or framework is another beginning: a torch release asked for the old one need not exist there.
        return wish
    open_ = Wish()
    kept = {
        name: getattr(old, name)
        for name in ("scheme", "framework", "torch", "python", "extras", "accept")
        if getattr(wish, name) == getattr(open_, name)
    }
    told = [f"--{name} {value}" for name, value in kept.items() if name in ("scheme", "framework", "torch", "python") and value]
    told += [f"--with {name}" for name in kept.get("extras", ())]
    if told:
        tell(f"as this environment was made: {' '.join(told)}")
    return replace(wish, **kept)


def _point_to(fault: EnvkitError, gone: str, kept: str) -> None:
    """Names the log where it now lies."""
    fault.message = fault.message.replace(gone, kept or "could not be kept")
    fault.args = (fault.message,)
    if isinstance(fault, StepFailed):
        fault.log = kept
    elif isinstance(fault, DiskFull) and kept:
        fault.message += f"\nlog: {kept}"


def _hold_to_constraints(plan: Plan, sources: Sources) -> None:
    """Raises UsageError where the user's own constraints forbid a pin of the plan: uv would only find that out later."""
    from packaging.specifiers import SpecifierSet

    from envkit.sources import read_constraints

    constraints = read_constraints(sources)
    for package in plan.packages:
        for text, file in constraints.get(package.name, ()):
            if not SpecifierSet(text).contains(package.version, prereleases=True):
                raise UsageError(
                    f"the plan has {package.requirement}, which the constraint {package.name}{text} in {file} forbids",
                    hint="lift the constraint, or ask for another release with --torch",
                )
