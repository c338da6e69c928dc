"""`envkit verify`: proves a venv, an image, a host or many hosts by computing in them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envkit.cli.output import emit, format_option, say
from envkit.errors import EnvkitError, Unavailable, UsageError
from envkit.files import write_whole

if TYPE_CHECKING:
    from envkit.model import Proof
    from envkit.report.proofs import Result
    from envkit.verify import Aim

LEVELS = ("host", "runtime", "framework", "compute", "collective", "speed")


# Longer than any proof takes, and short enough for every timer on the way.
LONGEST = 7 * 86400.0


def _seconds(_context: click.Context, _option: click.Parameter, value: float) -> float:
    """A number of seconds that a timer can be set to; nan is neither too small nor too large."""
    if not math.isfinite(value) or value > LONGEST:
        raise click.BadParameter(f"{value:g} is no time to wait; it goes from 1 to {LONGEST:.0f} seconds.")
    return value


def _file(_context: click.Context, _option: click.Parameter, value: str | None) -> Path | None:
    if value is None:
        return None
    if not value:
        raise click.BadParameter("it names no file.")
    return Path(value)


@click.command()
@click.argument("scheme", required=False)
@click.option("--venv", type=click.Path(path_type=Path), metavar="DIR", help="A virtual environment on this machine.")
@click.option("--image", metavar="NAME", help="An image that `envkit build` made, by another name than its scheme's.")
@click.option("--host", metavar="URL", help="A host: ssh://user@host:port, docker://NAME, local://, ansible://NAME.")
@click.option(
    "-i",
    "--inventory",
    type=click.Path(path_type=Path, exists=True),
    metavar="INVENTORY",
    help="Every host of an Ansible inventory.",
)
@click.option("--python", metavar="PATH", default="", help="The Python on the host.  [default: /opt/envkit/SCHEME/bin/python]")
@click.option("--identity", metavar="FILE", default="", help="The key to log in with, for ssh hosts.")
@click.option("--ssh-config", metavar="FILE", default="", help="An SSH configuration file, for ssh hosts.")
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="compute",
    show_default=True,
    help="How far to go. Below `compute` nothing is proven: the exit code then tells whether a check failed. `collective` lets "
    "all devices reduce and train together, `speed` measures them.",
)
@click.option(
    "--limit",
    type=click.FloatRange(min=1),
    default=300,
    show_default=True,
    metavar="SECONDS",
    callback=_seconds,
    help="End whatever takes longer.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), callback=_file, metavar="FILE", help="Write the result to a file."
)
@format_option("text", "json", "junit", "md")
@click.pass_context
def command(
    context: click.Context,
    scheme: str | None,
    venv: Path | None,
    image: str | None,
    host: str | None,
    inventory: Path | None,
    python: str,
    identity: str,
    ssh_config: str,
    level: str,
    limit: float,
    output: Path | None,
    form: str,
) -> int:
    """Prove an environment by computing in it.

    Trains one step on each device that the plan names, or computes one inference where the framework does not train, and
    compares it with a reference. SCHEME alone means its built image; without arguments, the environment that `envkit up`
    made last in this folder.

    \b
    envkit verify
    envkit verify linux-cuda
    envkit verify --venv env
    envkit verify --host ssh://me@lab1
    """
    from envkit.report.proofs import result_line

    places = {"--venv": venv, "--image": image, "--host": host, "-i": inventory}
    given = [name for name, value in places.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} mean different places", hint="name one of them")
    for name, value in (("--python", python), ("--identity", identity), ("--ssh-config", ssh_config)):
        if value and not (host or inventory):
            raise UsageError(f"{name} belongs to --host or -i")
    if output is not None:
        _writable(output)
    if host or inventory:
        results = _hosts(context, scheme, host, inventory, python=python, ssh=(ssh_config, identity), limit=limit, level=level)
    elif image or (scheme and venv is None):
        results = [_image(context, scheme, image, limit=limit, level=level)]
    else:
        results = [_venv(context, scheme, venv, limit=limit, level=level)]
    text = _report(results, form, level)
    if output is None:
        emit(text)
    else:
        _write(output, text + "\n")
        for result in results:
            say(f"{result.host}: {result_line(result)}")
        say(f"written to {output}")
    return exit_code(results, level)


def exit_code(results: Sequence[Result], level: str) -> int:
    """0: all is well; 1: something failed or was not proven; 5: a host could not be reached, and nothing failed elsewhere."""
    from envkit.model import Proof
    from envkit.report.proofs import well

    proofs = [result for result in results if isinstance(result, Proof)]
    if any(not well(proof, level) for proof in proofs):
        return 1
    return Unavailable.exit_code if len(proofs) < len(results) else 0


def _venv(context: click.Context, scheme: str | None, directory: Path | None, *, limit: float, level: str) -> Proof:
    from envkit.verify import verify_venv
    from envkit.verify.runner import recorded_plan, venv_python

    if directory is None:
        from envkit.venv import last_environment

        directory = last_environment(Path.cwd())
        if directory is None:
            raise UsageError(
                "no environment was made from this folder yet",
                hint="make one with `envkit up`, or name one: envkit verify --venv DIR",
            )
    venv_python(directory)
    plan = recorded_plan(directory)
    if plan is not None and scheme in (None, plan.scheme):
        return verify_venv(plan, directory, limit=limit, level=level)
    if scheme is None:
        raise UsageError(
            f"{directory} was not made by envkit, so nothing tells what it should be",
            hint=f"envkit verify SCHEME --venv {directory}",
        )
    # Held to another scheme than its own: the answer says nothing about the plan that its proof belongs to.
    return verify_venv(_scheme_aim(context, scheme), directory, limit=limit, level=level, record=False)


def _image(context: click.Context, scheme: str | None, image: str | None, *, limit: float, level: str) -> Proof:
    from envkit.verify import image_name, verify_image

    if scheme and not image:
        from envkit.cli.common import load_matrix

        matrix = load_matrix(context)
        _known(scheme, tuple(matrix.schemes))
        why = matrix.schemes[scheme].no_container
        if matrix.schemes[scheme].container is None:
            raise UsageError(
                f"{scheme} has no image{f': {why}' if why else ''}",
                hint=f"envkit verify {scheme} --venv DIR, or --host URL",
            )
    return verify_image(None, image or image_name(scheme or ""), limit=limit, level=level, scheme=scheme or "")


def _hosts(
    context: click.Context,
    scheme: str | None,
    host: str | None,
    inventory: Path | None,
    *,
    python: str,
    ssh: tuple[str, str],
    limit: float,
    level: str,
) -> list[Result]:
    from envkit.errors import EnvkitError
    from envkit.report.proofs import Unreached
    from envkit.verify import verify_host, verify_hosts
    from envkit.verify.hosts import SshOptions, connect_all, connect_group, kind_of

    options = SshOptions(config=ssh[0], identity=ssh[1])
    aim = _scheme_aim(context, scheme) if scheme else None
    if host and kind_of(host) != "ansible":
        return [verify_host(aim, host, python=python, scheme=scheme or "", recorded=True, limit=limit, level=level, ssh=options)]
    runners = connect_group(host, options) if host else connect_all(inventory, ssh=options)
    found = verify_hosts(aim, runners, python=python, scheme=scheme or "", limit=limit, level=level)
    return [
        Unreached(host=name, why=result.message, hint=result.hint) if isinstance(result, EnvkitError) else result
        for name, result in found
    ]


def _scheme_aim(context: click.Context, scheme: str) -> Aim:
    from envkit.cli.common import load_matrix
    from envkit.verify import aim_at_scheme

    matrix = load_matrix(context)
    _known(scheme, tuple(matrix.schemes))
    found = matrix.schemes[scheme]
    return aim_at_scheme(found, matrix.backends[found.backend])


def _known(scheme: str, schemes: Sequence[str]) -> None:
    if scheme in schemes:
        return
    import difflib

    close = difflib.get_close_matches(scheme, schemes, n=1)
    raise UsageError(
        f"unknown scheme {scheme!r}" + (f"; did you mean {close[0]!r}?" if close else ""), hint="see them with: envkit schemes"
    )


def _report(results: Sequence[Result], form: str, level: str) -> str:
    if form == "json":
        from envkit.report.proofs import as_json

        return as_json(results)
    if form == "junit":
        from envkit.report.junit import results_junit

        return results_junit(results, level)
    if form == "md":
        from envkit.report.markdown import results_markdown

        return results_markdown(results)
    from envkit.report.text import results_text

    return results_text(results)


def _writable(path: Path) -> None:
    """Tells before anything is proved, which takes its time, that the report would have no place."""
    folder = path.parent
    if not folder.is_dir():
        raise EnvkitError(
            f"the report cannot be written to {path}: No such file or directory", hint=f"mkdir -p {shlex.quote(str(folder))}"
        )


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except BrokenPipeError:
        raise
    except OSError as fault:
        raise EnvkitError(
            f"the report cannot be written to {path}: {fault.strerror}",
            hint="check that the place may be written to and has room, or name another: -o FILE",
        ) from None
