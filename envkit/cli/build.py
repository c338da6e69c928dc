"""`envkit build`: images, through BuildKit."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from envkit.cli.output import emit, emit_json, fancy, format_option, say
from envkit.errors import UsageError
from envkit.model import Wish

if TYPE_CHECKING:
    from envkit.build import Built, Decision, Options
    from envkit.build.progress import Step

SCHEMA = "envkit/build/1"

# A step that says nothing new for so long is named again, where no progress can be drawn.
_REMIND = 30.0


@click.command()
@click.argument("schemes", nargs=-1, required=True, metavar="SCHEME...")
@click.option(
    "--tag",
    "tags",
    envvar="ENVKIT_BUILD_TAG",
    multiple=True,
    metavar="NAME",
    help='Name the image so, instead of envkit/SCHEME; "{scheme}" stands for it.',
)
@click.option("--push", is_flag=True, help="Push the image to the registry that its name (--tag) leads to.")
@click.option("--no-cache", is_flag=True, help="Run every step again, without any cache.")
@click.option("--no-prune", is_flag=True, help="Keep the packages' test suites and torch's test programs.")
@click.option("--dry-run", is_flag=True, help="Print the Dockerfile and the command, and ask no engine for anything.")
@click.option("--torch", default="", metavar="SPEC", help='"2.7.1", "2.7", ">=2.4,<2.8" or latest.')
@click.option("--python", default="", metavar="VERSION", help="Another Python than the base's own; uv brings it.")
@click.option(
    "--with",
    "companions",
    envvar="ENVKIT_BUILD_WITH",
    multiple=True,
    metavar="PACKAGE",
    help="A companion package to include, such as torchvision. Can be given several times.",
)
@click.option(
    "--progress",
    type=click.Choice(["auto", "plain", "quiet"]),
    default="auto",
    show_default=True,
    help="How to show the progress; plain prints all that the steps say.",
)
@format_option("text", "json")
@click.pass_context
def command(
    ctx: click.Context,
    schemes: tuple[str, ...],
    tags: tuple[str, ...],
    push: bool,
    no_cache: bool,
    no_prune: bool,
    dry_run: bool,
    torch: str,
    python: str,
    companions: tuple[str, ...],
    progress: str,
    form: str,
) -> int:
    """Build the images of SCHEMES from what this machine's package sources offer; several are built at once."""
    from envkit import build
    from envkit.build import engine
    from envkit.build.deciding import scheme_with_image
    from envkit.cli.common import load_matrix
    from envkit.model import Os
    from envkit.resolve.wishes import machine_word
    from envkit.sources import read_sources

    schemes = tuple(dict.fromkeys(schemes))
    check_tags(schemes, tags, push)
    matrix = load_matrix(ctx)
    for name in schemes:
        scheme_with_image(matrix, name)
    tell = say if progress != "quiet" else _nothing
    if dry_run:
        import platform

        arch, buildx = machine_word(Os.LINUX, platform.machine()) or "x86_64", ""
    else:
        found = engine.look()
        arch, buildx = found.arch, found.buildx
    sources = read_sources()
    for note in sources.notes:
        say(f"warning: {note}")
    wish = Wish(torch=torch, python=python, extras=companions)
    decisions = [build.decide(matrix, name, wish, arch, sources, tell, only_look=dry_run) for name in schemes]
    options = build.Options(tags=tags, push=push, no_cache=no_cache, prune=not no_prune)
    if dry_run:
        files, argv = build.dry_run(decisions, sources, options)
        if form == "json":
            emit_json(_dry_document(decisions, options, files, argv))
        else:
            emit("\n".join([*files.values(), "# " + shlex.join(argv)]))
        return 0
    for decision in decisions:
        tell(f"building {decision.plan.scheme}: {_packages(decision)}, Python {decision.plan.python}")
    with _display(progress) as watch:
        built = build.build(decisions, sources, options, watch, tell, buildx)
    if form == "json":
        emit_json(_document(built, push))
    else:
        emit("\n\n".join(_text(image) for image in built))
    return 0


def check_tags(schemes: Sequence[str], tags: Sequence[str], push: bool) -> None:
    """Raises UsageError for tags that cannot be meant."""
    import re

    name = re.compile(
        r"[a-z0-9][a-z0-9._-]*(:[0-9]+)?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*(:[A-Za-z0-9_][\w.-]{0,127})?\Z", re.ASCII
    )
    for tag in tags:
        if not name.match(tag.replace("{scheme}", "scheme")):
            raise UsageError(
                f"--tag {tag!r} is no name of an image", hint="write it as registry.example/team/name:version, in lower case"
            )
    if len(schemes) > 1 and any("{scheme}" not in tag for tag in tags):
        raise UsageError(
            "several images cannot have one name", hint="let --tag tell them apart: --tag registry.example/{scheme}:1"
        )
    if push and not tags:
        raise UsageError("--push needs a name that leads to a registry", hint="--tag registry.example/team/{scheme}:1 --push")


def _packages(decision: Decision) -> str:
    return ", ".join(f"{package.name} {package.version}" for package in decision.plan.packages)


def _nothing(_text: str) -> None:
    return


# ---- results -----------------------------------------------------------------------------------------------------


def _text(image: Built) -> str:
    plan = image.decision.plan
    size = f"{image.size_bytes / 1e6:.0f} MB" if image.size_bytes is not None else "size not known here"
    lines = [
        f"{plan.scheme}: {', '.join(image.tags)}",
        f"  {_packages(image.decision)}, Python {plan.python} on {plan.container.base if plan.container else ''}",
        f"  {size}, built in {image.seconds:.1f} s, {image.digest}",
        f"  prove it on this machine: envkit verify {_what(image)}",
    ]
    return "\n".join(lines)


def _what(image: Built) -> str:
    """How `verify` is told of the image: its scheme means the usual name alone."""
    from envkit.verify import image_name

    scheme = image.decision.plan.scheme
    return scheme if not image.tags or image_name(scheme) in image.tags else f"--image {image.tags[0]}"


def _document(built: Sequence[Built], pushed: bool) -> dict[str, Any]:
    return {"schema": SCHEMA, "dry_run": False, "pushed": pushed, "images": [_image(image) for image in built]}


def _image(image: Built) -> dict[str, Any]:
    return {
        **_decided(image.decision, image.tags),
        "id": image.id,
        "digest": image.digest,
        "size_bytes": image.size_bytes,
        "seconds": round(image.seconds, 2),
        "steps": [{"name": step.title, "seconds": round(step.seconds or 0.0, 2), "cached": step.cached} for step in image.steps],
        "log": image.log,
    }


def _decided(decision: Decision, tags: Sequence[str]) -> dict[str, Any]:
    from envkit.plan import digest

    plan = decision.plan
    return {
        "scheme": plan.scheme,
        "tags": list(tags),
        "plan": digest(plan),
        "framework": {"name": plan.framework_name, "version": plan.framework_package.version},
        "python": plan.python,
    }


def _dry_document(decisions: Sequence[Decision], options: Options, files: dict[str, str], argv: Sequence[str]) -> dict[str, Any]:
    from envkit.build.staging import tags_of

    rows = [
        {**_decided(decision, tags_of(decision, options)), "dockerfile": files[decision.plan.scheme]} for decision in decisions
    ]
    return {"schema": SCHEMA, "dry_run": True, "pushed": False, "images": rows, "command": list(argv)}


# ---- progress ----------------------------------------------------------------------------------------------------


@contextmanager
def _display(progress: str) -> Iterator[Callable[[Step, Sequence[str]], None]]:
    """Shows the steps as they come: drawn on a terminal, else line by line; nothing when asked to be quiet."""
    if progress == "quiet":
        yield lambda _step, _lines: None
    elif progress == "plain" or not fancy():
        yield Lines(everything=progress == "plain")
    else:
        with Drawing() as drawing:
            yield drawing


class Lines:
    """Prints a line when a step begins, when it ends, and now and then what it is at."""

    def __init__(self, *, everything: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._everything = everything
        self._clock = clock
        self._begun: dict[str, float] = {}
        self._ended: set[str] = set()

    def __call__(self, step: Step, lines: Sequence[str]) -> None:
        """Takes in what a step says."""
        title = title_of(step)
        if not title or step.digest in self._ended:
            return
        if step.completed:
            self._ended.add(step.digest)
            if step.error:
                say(f"  {title}: failed")
            elif step.cached:
                say(f"  {title}: as before")
            elif (step.seconds or 0.0) >= 0.5 or step.digest in self._begun:
                say(f"  {title}: done in {step.seconds or 0.0:.1f} s")
            return
        now = self._clock()
        if self._everything:
            for line in lines:
                say(f"  {title} | {line}")
        elif step.started and lines and now - self._begun.get(step.digest, now) >= _REMIND:
            say(f"  {title}: {now_at(step)}")
            self._begun[step.digest] = now
        if step.started:
            self._begun.setdefault(step.digest, now)


class Drawing:
    """Draws the steps that run, each with what it is at; those that ended stay above."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._running: dict[str, tuple[Step, float]] = {}
        self._ended: set[str] = set()
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, refresh_per_second=8, transient=True, get_renderable=self._render)

    def __enter__(self) -> Drawing:
        self._live.start()
        return self

    def __exit__(self, *_fault: object) -> None:
        self._live.stop()

    def __call__(self, step: Step, lines: Sequence[str]) -> None:
        """Takes in what a step says."""
        if not title_of(step) or step.digest in self._ended:
            return
        if step.completed:
            self._ended.add(step.digest)
            self._running.pop(step.digest, None)
            how = "failed" if step.error else "as before" if step.cached else f"{step.seconds or 0.0:.1f} s"
            if step.error or step.cached or (step.seconds or 0.0) >= 0.5:
                self._console.print(f"  {title_of(step)}: {how}", markup=False)
        elif step.started:
            self._running.setdefault(step.digest, (step, time.monotonic()))

    def _render(self) -> Any:
        from rich.text import Text

        rows = []
        for step, since in list(self._running.values()):
            row = Text("  ", no_wrap=True, overflow="ellipsis")
            row.append(title_of(step), style="bold")
            row.append(f"  {time.monotonic() - since:.0f} s  ")
            row.append(now_at(step), style="dim")
            rows.append(row)
        return Text("\n", no_wrap=True, overflow="ellipsis").join(rows)


def title_of(step: Step) -> str:
    """The step as it is shown: the image it belongs to, where there are several, and what it does."""
    return f"{step.target}: {step.title}" if step.target and step.title else step.title


def now_at(step: Step) -> str:
    """What a running step is at, in a few words."""
    said = next((line.strip() for line in reversed(step.output) if line.strip()), "")
    if said.startswith("{"):
        said = "proving"
    return (step.detail or said)[:100]
