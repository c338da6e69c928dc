"""The image of linux-cpu beside a plain pip Dockerfile for the same packages: size, build time, rebuild after a new torch.

    python tests/benchmarks/build_vs_pip.py [ROUNDS]

Needs a Docker engine and a folder of wheels (PIP_FIND_LINKS) that holds torch for CPython 3.11; takes some minutes. Both sides
build on the same base, take torch from the same folder and the rest from the same index. The first build is done without any
cache; what comes before the install is there at a rebuild, as it would be. The new torch is the same wheel under the name of
the next release, another one in each round: as large and as compressed as the first, so that unpacking it costs what a real
one costs.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab import base_image, engine
from lab.machine import ca_bundle, find_links
from run import envkit

PLAIN = """\
FROM scratch AS wheels
FROM debian:bookworm-slim
RUN apt-get update \\
 && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \\
 && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=wheels,target=/run/wheels --mount=type=secret,id=ca \\
    if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi; \\
    python3 -m venv /opt/venv \\
 && /opt/venv/bin/pip install --no-cache-dir --find-links /run/wheels {pins}
CMD ["/opt/venv/bin/python"]
"""
OURS, THEIRS = "envkit-bench/ours:1", "envkit-bench/pip:1"


def renamed(wheel: Path, folder: Path, release: str) -> Path:
    """A copy of a wheel of torch that calls itself another release; all other content stays as it is compressed.

    No two are the same, so that no builder finds in its cache what it is to be measured at.
    """
    old = wheel.name.split("-")[1]
    new = f"{release}+{old.partition('+')[2]}"
    path = folder / wheel.name.replace(old, new)
    info = f"torch-{old}.dist-info"
    with zipfile.ZipFile(wheel) as source, wheel.open("rb") as raw, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as copy:
        version = source.read("torch/version.py").decode().replace(f"'{old}'", f"'{new}'") + f"# {uuid.uuid4()}\n"
        metadata = source.read(f"{info}/METADATA").decode().replace(f"\nVersion: {old}\n", f"\nVersion: {new}\n")
        texts = {"torch/version.py": version, f"{info}/METADATA": metadata}
        assert f"'{new}'" in version
        assert f"\nVersion: {new}\n" in metadata
        texts[f"{info}/RECORD"] = _record(source.read(f"{info}/RECORD").decode(), texts, info, f"torch-{new}.dist-info")
        for entry in source.infolist():
            name = entry.filename.replace(info, f"torch-{new}.dist-info")
            if entry.filename in texts:
                copy.writestr(name, texts[entry.filename])
                continue
            raw.seek(entry.header_offset)
            head = raw.read(30)
            raw.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), os.SEEK_CUR)
            _append(copy, name, entry, raw.read(entry.compress_size))
    return path


def _append(copy: zipfile.ZipFile, name: str, entry: zipfile.ZipInfo, data: bytes) -> None:
    """Adds an entry as it was compressed; zipfile itself would do that work again."""
    new = zipfile.ZipInfo(name, entry.date_time)
    new.compress_type, new.external_attr, new.create_system = entry.compress_type, entry.external_attr, entry.create_system
    new.CRC, new.compress_size, new.file_size = entry.CRC, entry.compress_size, entry.file_size
    assert copy.fp is not None
    copy.fp.seek(copy.start_dir)
    new.header_offset = copy.fp.tell()
    copy.fp.write(new.FileHeader(zip64=False))
    copy.fp.write(data)
    copy.start_dir = copy.fp.tell()
    copy._didModify = True  # type: ignore[attr-defined]
    copy.filelist.append(new)
    copy.NameToInfo[name] = new


def _record(text: str, texts: dict[str, str], info: str, new_info: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for name, digest, size in csv.reader(text.splitlines()):
        if name in texts:
            data = texts[name].encode()
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            digest, size = f"sha256={found}", str(len(data))
        writer.writerow([name.replace(info, new_info), digest, size])
    return out.getvalue()


@dataclass(frozen=True)
class Side:
    """One way to the image."""

    image: str
    folder: Path

    def build(self, wheels: Path, pins: Sequence[str], *, no_cache: bool = False) -> float:
        """Seconds that the whole command takes."""
        raise NotImplementedError


class Ours(Side):
    """`envkit build linux-cpu`, as a user calls it."""

    def build(self, wheels: Path, pins: Sequence[str], *, no_cache: bool = False) -> float:
        env = {**os.environ, "PIP_FIND_LINKS": str(wheels), "XDG_STATE_HOME": str(self.folder)}
        argv = [*envkit(), "build", "linux-cpu", "--tag", self.image, "--format", "json"]
        seconds, said = timed([*argv, "--no-cache"] if no_cache else argv, self.folder, env)
        (image,) = json.loads(said)["images"]
        built = f"torch=={image['framework']['version']}"
        assert not pins or built in pins, f"{built} was built instead of {pins}"
        return seconds


class Plain(Side):
    """The Dockerfile that one writes by hand."""

    def build(self, wheels: Path, pins: Sequence[str], *, no_cache: bool = False) -> float:
        (self.folder / "Dockerfile").write_text(PLAIN.format(pins=" ".join(pins)), encoding="utf-8")
        bundle = ca_bundle()
        argv = ["docker", "buildx", "build", "--tag", self.image, "--build-context", f"wheels={wheels}"]
        argv += ["--secret", f"id=ca,src={bundle}"] if bundle else []
        argv += [f"--build-arg={name}" for name in ("http_proxy", "https_proxy", "no_proxy") if os.environ.get(name)]
        argv += ["--no-cache"] if no_cache else []
        return timed([*argv, str(self.folder)], self.folder, dict(os.environ))[0]


def timed(argv: Sequence[str], cwd: Path, env: dict[str, str]) -> tuple[float, str]:
    """Seconds that a command takes, and what it printed; it must not fail."""
    started = time.perf_counter()
    done = subprocess.run(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"{argv} ended with {done.returncode}: {done.stderr[-2000:]}")
    return seconds, done.stdout


def size(image: str) -> int:
    """Bytes of an image."""
    return int(timed(["docker", "image", "inspect", "--format", "{{.Size}}", image], Path("/"), dict(os.environ))[1])


def next_release(pins: Sequence[str]) -> str:
    """The release after the pinned torch, of those that the matrix knows with a build for the CPU."""
    from packaging.version import Version

    from envkit.matrix import load

    release = next(pin.removeprefix("torch==").partition("+")[0] for pin in pins if pin.startswith("torch=="))
    torch = load().frameworks["torch"]
    built = {build.release for build in torch.builds if build.tag == "cpu" and "linux/x86_64" in build.platforms}
    later = [
        Version(row.version)
        for row in torch.releases
        if Version(row.version) > Version(release) and {row.version, row.version.rpartition(".")[0]} & built
    ]
    return str(min(later))


def shown(what: str, ours: float, theirs: float, unit: str, aim: str = "") -> str:
    """One line of the result."""
    return f"{what}: envkit {ours:.1f} {unit}, pip {theirs:.1f} {unit}, ratio {ours / theirs:.2f}{aim}"


def main(arguments: Sequence[str]) -> int:
    """Prints the figures."""
    rounds = int(arguments[0]) if arguments else 3
    engine.ensure()
    base_image.ensure()
    genuine = next(path for folder in find_links() for path in folder.glob("torch-*+cpu-cp311-*x86_64.whl"))
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for folder in ("ours", "pip"):
            (top / folder).mkdir()
        try:
            measure((Ours(OURS, top / "ours"), Plain(THEIRS, top / "pip")), genuine, top, rounds)
        finally:
            subprocess.run(["docker", "image", "rm", "--force", OURS, THEIRS], capture_output=True, check=False)
    return 0


def measure(sides: tuple[Side, Side], genuine: Path, top: Path, rounds: int) -> None:
    """Builds in turn and prints the figures."""
    ours, theirs = sides
    first = renamed(genuine, made(top / "first"), genuine.name.split("-")[1].partition("+")[0]).parent
    seconds = ours.build(first, [], no_cache=True)
    # The same packages for the other side.
    _, inside = timed(["docker", "run", "--rm", ours.image, "cat", "/opt/envkit/constraints.txt"], top, dict(os.environ))
    pins = [line for line in inside.splitlines() if not line.startswith("#")]
    other = theirs.build(first, pins, no_cache=True)
    print(shown("size", size(ours.image) / 1e6, size(theirs.image) / 1e6, "MB", " (aim: 0.8)"), flush=True)
    print(shown("first build, no cache", seconds, other, "s"), flush=True)
    newer = next_release(pins)
    pins = [f"torch=={newer}+cpu" if pin.startswith("torch==") else pin for pin in pins]
    times: list[tuple[float, float]] = []
    for number in range(rounds):
        folder = renamed(genuine, made(top / f"new-{number}"), newer).parent
        times.append((ours.build(folder, pins), theirs.build(folder, pins)))
        print(f"  rebuild {number + 1}: envkit {times[-1][0]:.1f} s, pip {times[-1][1]:.1f} s", flush=True)
    medians = [statistics.median(pair[number] for pair in times) for number in (0, 1)]
    print(shown("rebuild after a new torch", *medians, "s", " (aim: 0.3)"), flush=True)


def made(folder: Path) -> Path:
    """The folder, which is there now."""
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
