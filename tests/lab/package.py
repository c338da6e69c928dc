"""Builds wheel and sdist and checks what they carry, that both ways give the same wheel, and that it works anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")

# What must be inside, beside the code: `name/` means at least one file below it.
WHEEL = (
    "envkit/py.typed",
    "envkit/_shipped/matrix.toml",
    "envkit/_shipped/templates/dockerfile/",
    "envkit/_shipped/templates/playbook/",
    "envkit/_shipped/playbooks/roles/",
    "envkit/devices/",
    "envkit/schemas/plan.json",
    "envkit/verify/probe.py",
    "envkit/verify/smoke/",
    "envkit/detect/probe.py",
)
SDIST = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "matrix.toml",
    "templates/",
    "playbooks/",
    "images/",
    "tests/",
    ".ci/run",
)


def run(*words: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """What a command printed; ends the whole with its output when it fails."""
    argv = [str(word) for word in words]
    done = subprocess.run(
        argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def missing(wanted: tuple[str, ...], names: set[str]) -> list[str]:
    """Those of `wanted` that are not among `names`."""
    return [one for one in wanted if not (any(name.startswith(one) for name in names) if one.endswith("/") else one in names)]


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel, without the record of their hashes."""
    with zipfile.ZipFile(wheel) as pack:
        return {name: pack.read(name) for name in pack.namelist() if not name.endswith("/RECORD")}


def main() -> None:
    """Ends with a message when something is wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(UV, "build", "--quiet", "--sdist", "--wheel", "--out-dir", folder / "first", ROOT)
        (wheel,) = (folder / "first").glob("*.whl")
        (sdist,) = (folder / "first").glob("*.tar.gz")
        inside = contents(wheel)
        with tarfile.open(sdist) as pack:
            listed = {member.name.partition("/")[2] for member in pack.getmembers() if member.isfile()}
        gaps = [f"wheel: {one}" for one in missing(WHEEL, set(inside))] + [f"sdist: {one}" for one in missing(SDIST, listed)]
        strays = [one for one in sorted({*inside, *listed}) if "__pycache__" in one or one.endswith((".pyc", ".log"))]
        if gaps or strays:
            sys.exit("\n".join(["missing:", *gaps, "not meant to be there:", *strays]))
        for package in ("envkit",):
            tracked = {
                path.relative_to(ROOT).as_posix() for path in (ROOT / package).rglob("*.py") if "__pycache__" not in path.parts
            }
            if tracked - set(inside):
                sys.exit("missing in the wheel: " + ", ".join(sorted(tracked - set(inside))))
        # uv builds the wheel from the sdist when both are asked for; the second one comes from the checkout itself.
        run(UV, "build", "--quiet", "--wheel", "--out-dir", folder / "second", ROOT)
        (other,) = (folder / "second").glob("*.whl")
        outside = contents(other)
        unlike = sorted(one for one in {*inside, *outside} if inside.get(one) != outside.get(one))
        if unlike:
            sys.exit("the wheel made from the sdist differs from the one made from the checkout: " + ", ".join(unlike))
        print(f"{wheel.name}: {wheel.stat().st_size // 1024} KiB, {len(inside)} files; the sdist builds the same one")

        empty = folder / "empty"
        empty.mkdir()
        env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        run(UV, "venv", "--quiet", "--python", sys.executable, folder / "venv")
        run(UV, "pip", "install", "--quiet", "--python", folder / "venv/bin/python", wheel, env=env)
        envkit = folder / "venv/bin/envkit"
        print(run(envkit, "--version", cwd=empty, env=env).strip())
        run(envkit, "matrix", "check", cwd=empty, env=env)
        run(envkit, "schemes", "--format", "json", cwd=empty, env=env)
        run(envkit, "resolve", "linux-cpu", "--format", "json", cwd=empty, env=env)
        run(envkit, "render", "-o", folder / "rendered", cwd=empty, env=env)
        for part in ("images", "playbooks"):
            made = {path.relative_to(folder / "rendered") for path in (folder / "rendered" / part).rglob("*") if path.is_file()}
            for path in sorted(made):
                # Roles get the probe as one of their files; the original lies in the package.
                original = ROOT / "envkit/verify/probe.py" if path.name == "probe.py" else ROOT / path
                if (folder / "rendered" / path).read_bytes() != original.read_bytes():
                    sys.exit(f"the installed envkit renders {path} differently from what is committed")
            print(f"rendered {len(made)} files under {part}/ as they are committed")
        if list(empty.iterdir()):
            sys.exit(f"left behind in the working folder: {', '.join(path.name for path in empty.iterdir())}")
        print("the installed wheel works from an empty folder")


if __name__ == "__main__":
    main()
