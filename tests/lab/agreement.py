"""What peers and vendors publish, row by row, beside what envkit answers when it is asked the same.

Every table is a function from the matrix to its rows. Answers come out of `envkit.resolve` and never out of the matrix itself,
so that a rule which reads a good row wrongly is found too. What differs stands in tests/fixtures/agreement/ with its reason.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from envkit.errors import UsageError
from envkit.model import (
    DriverFacts,
    Evidence,
    Facts,
    Gpu,
    Judged,
    Kind,
    Machine,
    Matrix,
    Plan,
    Resolution,
    Verdict,
    Wish,
)
from envkit.resolve import resolve

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT.parent / "shared/facts"
DEVIATIONS = ROOT / "tests/fixtures/agreement"
MISSING = "the collected facts do not lie beside this checkout"

LIKELY = (Verdict.SUPPORTED, Verdict.COMMUNITY)
ANY = (Verdict.SUPPORTED, Verdict.COMMUNITY, Verdict.UNKNOWN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of a table, or one cell of it, as both sides have it."""

    table: str
    key: str
    theirs: str
    ours: str

    @property
    def agrees(self) -> bool:
        """Whether both sides say the same."""
        return self.theirs == self.ours


@dataclass(frozen=True, kw_only=True, slots=True)
class Deviation:
    """A known difference: which rows, what each side says ("*" for whatever), who is right, and why."""

    table: str
    keys: tuple[str, ...]
    theirs: str
    ours: str
    right: str  # ours, theirs, both, open
    reason: str
    source: str
    pending: bool = False  # the row is being made: it may differ or agree

    def covers(self, row: Row) -> bool:
        """Whether it is about this row."""
        return (
            row.table == self.table
            and fnmatchcase(row.theirs, _literal(self.theirs))
            and fnmatchcase(row.ours, _literal(self.ours))
            and any(fnmatchcase(row.key, _literal(key)) for key in self.keys)
        )


def _literal(pattern: str) -> str:
    """Brackets occur in what is compared, so "*" and "?" alone are patterns here."""
    return pattern.replace("[", "[[]")


def read_deviations(name: str) -> tuple[Deviation, ...]:
    """The known differences of one file."""
    document = tomllib.loads((DEVIATIONS / f"{name}.toml").read_text(encoding="utf-8"))
    return tuple(Deviation(**{**each, "keys": tuple(each["keys"])}) for each in document["deviation"])


def unlisted(rows: Iterable[Row], known: Sequence[Deviation]) -> list[Row]:
    """The rows that differ without a listed reason."""
    return [row for row in rows if not row.agrees and not any(each.covers(row) for each in known)]


def vanished(rows: Iterable[Row], known: Sequence[Deviation]) -> list[str]:
    """The listed differences, key by key, that no row shows any more."""
    rows = [row for row in rows if not row.agrees]
    gone = []
    for each in known:
        for key in () if each.pending else each.keys:
            if not any(replace(each, keys=(key,)).covers(row) for row in rows):
                gone.append(f"{each.table} {key}: {each.theirs} / {each.ours}")
    return gone


def figures(rows: Sequence[Row], known: Sequence[Deviation]) -> str:
    """One line of figures: rows compared, agreed, differing with a reason, differing without."""
    agreed = sum(row.agrees for row in rows)
    without = len(unlisted(rows, known))
    return (
        f"{len(rows)} compared, {agreed} agree, {len(rows) - agreed - without} differ for a listed reason, {without} unexplained"
    )


# ---- asking ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def facts(name: str) -> Mapping[str, Any]:
    """One file of the collected facts."""
    return tomllib.loads((FACTS / f"{name}.toml").read_text(encoding="utf-8"))


def ask(matrix: Matrix, *, accept: tuple[Verdict, ...] = LIKELY, given: Facts | None = None, **wish: Any) -> Resolution | str:
    """envkit's answer, or what it says to a question that it cannot read."""
    try:
        return resolve(matrix, Wish(accept=accept, **wish), given)
    except UsageError as error:
        return str(error)


def plan(answer: Resolution | str) -> Plan | None:
    """The plan of an answer, where there is one."""
    return None if isinstance(answer, str) else answer.plan


def judged(answer: Resolution | str) -> tuple[Judged, ...]:
    """Every candidate that was judged."""
    return () if isinstance(answer, str) else answer.judged


def refused(answer: Resolution | str, *rules: str) -> bool:
    """Whether every candidate was rejected by one of these rules."""
    found = judged(answer)
    return bool(found) and all(any(a.rule in rules and a.kind is Kind.REJECTED for a in each.answers) for each in found)


def below(text: str) -> str:
    """The version just below one: 525.60.13 gives 525.60.12, 580 gives 579.999."""
    *head, last = text.split(".")
    if not head:
        return f"{int(last) - 1}.999"
    if int(last) > 0:
        return ".".join([*head, str(int(last) - 1).zfill(len(last))])
    return f"{below('.'.join(head))}.999" if len(head) > 1 else f"{int(head[0]) - 1}.999"


def floor(matrix: Matrix, **wish: Any) -> str:
    """The driver that envkit asks for, tried out: with it the question has a plan, with the one just below it has none."""
    answer = ask(matrix, accept=ANY, **wish)
    if isinstance(answer, str):
        return "no such index"
    if answer.plan is None:
        return "no plan"
    need = answer.plan.driver_need
    if not need:
        return "none"
    at, under = (plan(ask(matrix, accept=ANY, driver=text, **wish)) for text in (need, below(need)))
    if at is None or under is not None:
        return f"says {need}, but takes {'none' if at is None else 'an older one'}"
    return need


# ---- uv ----------------------------------------------------------------------------------------------------------

# Every wheel of the PyTorch index from CUDA 10 on holds code for Turing, and no driver that any of them takes is too old for it.
TURING = "sm_75"


def uv_drivers(matrix: Matrix) -> Iterator[Row]:
    """uv's least driver for each CUDA index, Linux and Windows."""
    for os in ("linux", "windows"):
        for row in facts("peer_tables/uv_torch_backend")[f"{os}_driver"]:
            ours = floor(matrix, os=os, gpu=TURING, backend=row["variant"])
            yield Row(table="uv driver", key=f"{os} {row['variant']}", theirs=row["driver_min"], ours=ours)


def uv_chips(matrix: Matrix) -> Iterator[Row]:
    """Which AMD chips uv gives each ROCm index to, over every chip that either side knows."""
    table = facts("peer_tables/uv_torch_backend")
    chips = sorted({chip for row in table["rocm"] for chip in row["gfx"]} | {row["gfx"] for row in facts("amd_gpus")["gfx"]})
    for row in table["rocm"]:
        for chip in chips:
            ours = _taken(ask(matrix, os="linux", gpu=chip, backend=row["variant"]))
            yield Row(table="uv chip", key=f"{row['variant']} {chip}", theirs="yes" if chip in row["gfx"] else "no", ours=ours)


def _taken(answer: Resolution | str) -> str:
    if isinstance(answer, str):
        return answer
    if answer.plan is not None:
        return "yes"
    verdicts = {each.verdict for each in answer.judged}
    return "override" if Verdict.OVERRIDE in verdicts else "unknown" if Verdict.UNKNOWN in verdicts else "no"


def uv_first(matrix: Matrix) -> Iterator[Row]:
    """The index that uv tries first for each AMD chip, beside the one that envkit chooses."""
    for row in facts("peer_tables/uv_torch_backend")["gfx"]:
        made = plan(ask(matrix, os="linux", gpu=row["gfx"]))
        yield Row(table="uv first", key=row["gfx"], theirs=row["first_tried"], ours=made.backend_tag if made else "no plan")


def uv_indexes(matrix: Matrix) -> Iterator[Row]:
    """The address of every index; Intel has the one row there, uv's `xpu`."""
    for tag, url in facts("peer_tables/uv_torch_backend")["index_urls"].items():
        gpu = {"cpu": "none", "xpu": "Arc A770"}.get(tag, "gfx90a" if tag.startswith("rocm") else TURING)
        if tag.startswith("rocm4") or tag in ("rocm5.1.1", "rocm5.2"):
            gpu = "gfx908"
        answer = ask(matrix, accept=ANY, os="linux", gpu=gpu, backend=tag)
        made = plan(answer)
        ours = made.framework_package.index if made else "no such index" if isinstance(answer, str) else "no plan"
        yield Row(table="uv index", key=tag, theirs=url, ours=ours)


# ---- cog ---------------------------------------------------------------------------------------------------------


def cog_torch(matrix: Matrix) -> Iterator[Row]:
    """cog's torch releases: the build of each CUDA, its companions, its index and its Pythons (3.10 and newer, as cog lists)."""
    listing = facts("peer_tables/cog_torch")["torch"]
    asked = sorted({python for row in listing for python in row["pythons"]}, key=lambda text: int(text[2:]))
    for row in listing:
        number, _, tag = row["torch"].partition("+")
        tag = tag or f"cu{row['cuda'].replace('.', '')}"  # the plain release, of PyPI
        wish = {"scheme": "linux-cpu" if tag == "cpu" else "linux-cuda", "os": "linux", "torch": number, "backend": tag}
        made, pythons = None, []
        for python in asked:
            found = plan(ask(matrix, accept=ANY, python=python, extras=("torchvision", "torchaudio"), **wish))
            made = made or found
            pythons += [python] if found else []
        ours = {"pythons": pythons} | (_companions(made) if made else {})
        theirs = {name: row[name].partition("+")[0] for name in ("torchvision", "torchaudio")}
        theirs |= {"index": _home(row["index_url"]), "pythons": row["pythons"]}
        yield Row(table="cog torch", key=row["torch"], theirs=_words(theirs), ours=_words(ours) if made else _why(matrix, wish))


def _companions(made: Plan) -> dict[str, Any]:
    found = {p.name: p.version.partition("+")[0] for p in made.packages if p.name in ("torchvision", "torchaudio")}
    return {**found, "index": _home(made.framework_package.index)}


def _home(index: str) -> str:
    return "PyPI" if index in ("pypi", "default_pypi") else index.rstrip("/").rpartition("/")[2]


def _words(values: Mapping[str, Any]) -> str:
    shown = {name: " ".join(value) if isinstance(value, list) else value for name, value in values.items()}
    return "; ".join(f"{name} {shown[name]}" for name in sorted(shown))


def _why(matrix: Matrix, wish: dict[str, Any]) -> str:
    answer = ask(matrix, accept=ANY, **wish)
    if isinstance(answer, str):
        return "no such index"
    return "no such build" if not answer.judged else "no plan"


def cog_images(matrix: Matrix) -> Iterator[Row]:
    """cog's CUDA images: whether a torch for the image's CUDA runs on the image's Ubuntu."""
    for row in facts("peer_tables/cog_cuda_images")["tag"]:
        cuda, ubuntu = ".".join(row["cuda"].split(".")[:2]), f"ubuntu-{row['ubuntu']}"
        answer = ask(matrix, accept=ANY, scheme="linux-cuda", os=ubuntu, backend=f"cuda {cuda}")
        if isinstance(answer, str):
            ours = f"no index for CUDA {cuda}" if "has no cuda" in answer else f"unknown system {ubuntu}"
        else:
            ours = "serves" if answer.plan else "no wheel that old"
        yield Row(table="cog image", key=row["tag"], theirs="serves", ours=ours)


def cog_images_listed(matrix: Matrix) -> Iterator[Row]:
    """The same images beside NVIDIA's own list of tags: whether the image exists and with which cuDNN its name says."""
    del matrix  # both sides are facts; envkit's own images take what the wheel brings
    listed = {(row["cuda"], row["os"]): row["flavours"] for row in facts("cuda_images")["combo"]}
    later = {(row["cuda"], os): row["flavours"] for row in facts("cuda_images")["combo_later"] for os in row["os"]}
    for row in facts("peer_tables/cog_cuda_images")["tag"]:
        _, _, flavour = row["tag"].partition("-")
        flavour, _, os = flavour.rpartition("-")
        flavours = [*listed.get((row["cuda"], os), ()), *later.get((row["cuda"], os), ())]
        ours = flavour if flavour in flavours else "not listed"
        yield Row(table="cog image tag", key=row["tag"], theirs=flavour, ours=ours)


# ---- NVIDIA ------------------------------------------------------------------------------------------------------


def cuda_floors(matrix: Matrix) -> Iterator[Row]:
    """The floor of minor-version compatibility of each CUDA major, asked of every index of that major."""
    majors = {row["cuda_major"]: row for row in facts("cuda_driver")["minor_version_compat"]}
    for tag in _tags(matrix, "cuda"):
        row = majors[int(tag[2:4])]
        for os, theirs in (("linux", row.get("linux_min_exact_ga", row["linux_min"])), ("windows", row["windows_min"])):
            ours = floor(matrix, os=os, gpu=TURING, backend=tag)
            yield Row(table="CUDA minor-version floor", key=f"{os} {tag}", theirs=theirs, ours=ours)


def _tags(matrix: Matrix, backend: str) -> list[str]:
    """The tags that torch is built for; other frameworks have some of their own."""
    built = {build.tag for build in matrix.frameworks["torch"].builds}
    return [release.tag for release in matrix.backends[backend].releases if release.tag in built]


def toolkit_drivers(matrix: Matrix) -> Iterator[Row]:
    """Each toolkit's own driver: from it on envkit prefers that toolkit's build to an older one, all else being equal."""
    level = _level(matrix)
    found: dict[tuple[str, str], str] = {}
    for row in facts("cuda_driver")["toolkit"]:
        tag = f"cu{row['cuda'].replace('.', '')}"
        for os in ("linux", "windows"):
            theirs = row[f"{os}_min"]
            theirs = theirs if theirs[0].isdigit() else "none published"
            key = f"{os} {row['cuda']} {row['release'].partition(' ')[2]}"
            ours = found.get((os, tag)) or found.setdefault((os, tag), _preferred_from(level, os, tag))
            yield Row(table="CUDA toolkit driver", key=key, theirs=theirs, ours=ours)


def _preferred_from(level: Matrix, os: str, tag: str) -> str:
    """The driver from which a tag's build is chosen among those of a release, found by trying known borders."""
    if tag not in _tags(level, "cuda"):
        return "no such index"
    builds = [b for b in level.frameworks["torch"].builds if f"{os}/x86_64" in b.platforms and b.published is not False]
    for torch in sorted({b.release for b in builds if b.tag == tag}):
        rivals = {b.tag for b in builds if b.release == torch and b.tag < tag and b.tag.startswith("cu")}
        if not rivals:
            continue
        for border in _borders(os):
            chosen = [_chosen(level, os, torch, text) for text in (below(border), border)]
            if chosen[1] == tag and chosen[0] in rivals:
                return border
    return "not visible"


def _chosen(level: Matrix, os: str, torch: str, driver: str) -> str:
    made = plan(ask(level, accept=ANY, os=os, gpu=TURING, driver=driver, torch=torch))
    return made.backend_tag if made else ""


@lru_cache(maxsize=4)
def _borders(os: str) -> tuple[str, ...]:
    own = {row[f"{os}_min"] for row in facts("cuda_driver")["toolkit"] if row[f"{os}_min"][0].isdigit()}
    return tuple(sorted(own | {str(row["branch"]) for row in facts("cuda_driver")["driver_branch"]}))


_levels: list[tuple[Matrix, Matrix]] = []


def _level(matrix: Matrix) -> Matrix:
    """The matrix with every torch build equally well known and confirmed, so that only drivers decide between tags."""
    for known, made in _levels:
        if known is matrix:
            return made
    torch = matrix.frameworks["torch"]
    builds = tuple(
        replace(build, evidence=Evidence.CLAIMED, published=build.published is not False, archs=build.archs or ("sm_75",))
        for build in torch.builds
    )
    made = replace(matrix, frameworks={**matrix.frameworks, "torch": replace(torch, builds=builds)})
    _levels[:] = [(matrix, made)]
    return made


def driver_branches(matrix: Matrix) -> Iterator[Row]:
    """Which branch of the driver drives which generation: every branch by every compute capability."""
    collected = facts("cuda_driver")
    newest = {row["branch"]: _number(row["max_cuda"]) for row in collected["driver_branch"]}
    for row in collected["arch_support"]:
        last = row["last_driver_branch"]
        for capability in row["cc"]:
            arch = f"sm_{capability.replace('.', '')}"
            for branch, cuda in newest.items():
                cuda = cuda or max((n for b, n in newest.items() if n and b < branch), default=(0, 0))
                theirs = cuda >= (_number(row["first_cuda"]) or (0, 0)) and (last == "ongoing" or branch <= last)
                answer = ask(matrix, accept=ANY, scheme="linux-cuda", gpu=arch, driver=f"{branch}.99", torch="2.7.1")
                if isinstance(answer, str):
                    ours = "unknown card"
                else:
                    ours = "no" if refused(answer, "driver-dropped", "driver-knows-gpu") else "yes"
                yield Row(table="driver branch", key=f"{arch} {branch}", theirs="yes" if theirs else "no", ours=ours)


def _number(text: str) -> tuple[int, ...] | None:
    return tuple(map(int, text.split("."))) if text[0].isdigit() else None


def kernel_modules(matrix: Matrix) -> Iterator[Row]:
    """Which kernel module each generation takes, open or proprietary."""
    names = {"Kepler": "sm_37", "Maxwell": "sm_52", "Pascal": "sm_61", "Volta": "sm_70", "Turing": "sm_75", "Ampere": "sm_86"}
    names |= {"Ada": "sm_89", "Hopper": "sm_90", "Blackwell": "sm_120"}
    for row in facts("cuda_driver")["kernel_module"]:
        card = Gpu(name="NVIDIA GH200 480GB") if "GH200" in row["arch"] else Gpu(arch=names[row["arch"]], vendor="nvidia")
        arch = "aarch64" if card.name else "x86_64"
        for license, theirs in (("Dual MIT/GPL", row["open_supported"]), ("NVIDIA", row["proprietary_supported"])):
            driver = DriverFacts(kernel="580.82.07", license=license)
            machine = Machine(os="linux", os_id="ubuntu-24.04", arch=arch, gpus=(card,), driver=driver)
            answer = ask(matrix, given=Facts(machine=machine), accept=ANY, scheme="linux-cuda")
            ours = "no" if refused(answer, "kernel-module") else "yes"
            kind = "proprietary" if license == "NVIDIA" else "open"
            yield Row(table="kernel module", key=f"{row['arch']} {kind}", theirs="yes" if theirs else "no", ours=ours)


def toolkit_least(matrix: Matrix) -> Iterator[Row]:
    """The least compute capability of each CUDA major: nothing older finds code in any of its builds."""
    known = sorted({(int(cc[:-2]), int(cc[-1])) for row in facts("cuda_driver")["arch_support"] for cc in row["cc"]})
    for row in facts("cuda_driver")["toolkit_min_cc"]:
        tags = [tag for tag in _tags(matrix, "cuda") if int(tag[2:4]) == row["cuda_major"]]
        least = tuple(map(int, row["min_cc"].split(".")))
        for capability in known:
            if not tags:
                continue
            arch = "sm_{}{}".format(*capability)
            found = any(plan(ask(matrix, accept=ANY, os="linux", gpu=arch, backend=tag)) for tag in tags)
            if capability < least:
                theirs, ours = "no code", "code" if found else "no code"
                yield Row(table="CUDA least capability", key=f"{row['cuda_major']} {arch}", theirs=theirs, ours=ours)


def code_runs_on(matrix: Matrix) -> Iterator[Row]:
    """Which compiled code runs on which device: every code by every capability, for CUDA 12.8 and for 13.2."""
    rows = facts("torch_cuda_archs")["code_runs_on"]
    known = [row["code_cc"] for row in rows]
    torch = matrix.frameworks["torch"]
    for tag, field in (("cu128", "excludes"), ("cu132", "excludes_from_cuda_13_2")):
        model = next(b for b in torch.builds if b.tag == tag and "linux/x86_64" in b.platforms and b.published)
        for row in rows:
            one = replace(model, archs=(f"sm_{row['code_cc'].replace('.', '')}",), ptx=())
            probe = replace(matrix, frameworks={**matrix.frameworks, "torch": replace(torch, builds=(one,))})
            for device in known:
                theirs = _runs(row, field, device)
                answer = ask(probe, accept=ANY, scheme="linux-cuda", os="linux", gpu=f"sm_{device.replace('.', '')}")
                ours = not refused(answer, "gpu-code")
                key = f"{tag} {row['code_cc']} on {device}"
                yield Row(table="code on device", key=key, theirs="yes" if theirs else "no", ours="yes" if ours else "no")


def _runs(row: Mapping[str, Any], field: str, device: str) -> bool:
    if "runs_on_exact" in row:
        return device in row["runs_on_exact"]
    code, this = (tuple(map(int, text.split("."))) for text in (row["runs_on_min"], device))
    return code[0] == this[0] and code <= this and device not in row.get(field, ())


def nvidia_names(matrix: Matrix) -> Iterator[Row]:
    """The architecture of every NVIDIA product, asked by its name."""
    for row in facts("nvidia_gpus")["gpu"]:
        answer = ask(matrix, accept=ANY, scheme="linux-cuda", gpu=row["name"], torch="2.7.1", backend="cu118")
        if isinstance(answer, str):
            ours = "varies" if "may mean several" in answer else answer
        else:
            card = answer.judged[0].candidate.accelerator
            ours = card.arch.removeprefix("sm_") if card else "no card"
            ours = f"{ours[:-1]}.{ours[-1]}" if ours.isdigit() else ours
        yield Row(table="NVIDIA product", key=row["name"], theirs=row["cc"], ours=ours)


# ---- AMD ---------------------------------------------------------------------------------------------------------

# The ROCm release whose lists speak for each index: the patch release in its wheels, or the newest one of the line with a list.
_SPEAKS = {"5.5": "5.5.1", "5.6": "5.6.1", "5.7": "5.7.1", "6.0": "6.0.2", "6.1": "6.1.2", "6.2": "6.2.4", "6.3": "6.3.3"}
_SPEAKS |= {"5.1.1": "5.1.3", "5.2": "5.2.3", "5.3": "5.3.3", "5.4.2": "5.4.3"}
_SPEAKS |= {"6.4": "6.4.3", "6.4.2": "6.4.2", "7.0": "7.0.2", "7.1": "7.1.1", "7.2": "7.2.1", "7.14": "7.14.0"}


def rocm_lists(matrix: Matrix) -> Iterator[Row]:
    """AMD's lists of systems and chips for each ROCm release that has an index: `supported` is said of these alone."""
    releases = {row["version"]: row for row in facts("rocm_releases")["release"]}
    chips = sorted({chip for row in releases.values() for chip in (*row.get("gfx_official", ()), *row.get("gfx_deprecated", ()))})
    systems = sorted({_system(name) for row in releases.values() for name in row.get("os", ())} & set(matrix.platforms))
    for tag in _tags(matrix, "rocm"):
        version = tag.removeprefix("rocm")
        row = releases.get(_SPEAKS.get(version, version), {})
        if "os" not in row or not any("linux/x86_64" in b.platforms and b.tag == tag for b in matrix.frameworks["torch"].builds):
            continue
        there = {_system(name) for name in row["os"]}
        listed = {*row["gfx_official"], *row.get("gfx_deprecated", ())}
        for chip in chips:
            # Some chips are promised on the newest systems alone.
            ours = _promised(matrix, ("ubuntu-22.04", "ubuntu-24.04"), (chip,), tag)
            if ours:
                theirs = "supported" if chip in listed and "ubuntu-22.04" in there else "not listed"
                yield Row(table="ROCm chip", key=f"{tag} {chip}", theirs=theirs, ours=ours)
        for system in systems:
            # Some systems are for MI300X alone.
            ours = _promised(matrix, (system,), ("gfx90a", "gfx942"), tag)
            if ours:
                yield Row(
                    table="ROCm system",
                    key=f"{tag} {system}",
                    theirs="supported" if system in there else "not listed",
                    ours=ours,
                )


def _promised(matrix: Matrix, systems: Sequence[str], chips: Sequence[str], tag: str) -> str:
    """The best that envkit says of some chips on some systems for an index; "" where the wheels hold no code for any there."""
    answers = {_promised_on(matrix, system, chip, tag) for system in systems for chip in chips}
    return max(answers, key=("", "not listed", "supported").index)


def _promised_on(matrix: Matrix, system: str, chip: str, tag: str) -> str:
    answer = ask(matrix, accept=ANY, os=system, gpu=chip, backend=tag)
    if isinstance(answer, str) or answer.plan is None:
        return ""
    rules = {a.rule for each in answer.judged[:1] for a in each.answers if a.kind is Kind.COMMUNITY}
    return "not listed" if rules & {"os-release", "vendor-support"} else "supported"


def _system(text: str) -> str:
    """ "ubuntu-22.04.5" and "rhel-9.6" as the matrix names systems."""
    name, _, number = text.partition("-")
    parts = number.split("-")[0].split(".")
    return f"{name}-{'.'.join(parts[:2]) if name == 'ubuntu' else parts[0]}"


def amdgpu_windows(matrix: Matrix) -> Iterator[Row]:
    """AMD's table of kernel drivers and user spaces: within it envkit knows no objection, outside of it it has one."""
    tags = {tag.removeprefix("rocm"): tag for tag in _tags(matrix, "rocm")}
    for row in facts("rocm_releases")["user_kernel"]:
        drivers = [text.replace(".x", ".0") for text in row["kmd"].split(" and ")]
        listed = {space.removesuffix(".x") for space in row["user_space"]}
        newest = max(_line(space) for space in listed)
        for version, tag in tags.items():
            line = ".".join(version.split(".")[:2])
            if _line(line) > newest:
                continue  # a table says nothing of releases that came after it
            answer = ask(matrix, accept=ANY, scheme="linux-rocm", os="ubuntu-22.04", gpu="gfx90a", driver=drivers[0], backend=tag)
            if isinstance(answer, str) or not answer.judged:
                continue
            rules = {a.rule for a in answer.judged[0].answers if a.kind in (Kind.COMMUNITY, Kind.REJECTED)}
            ours = "outside" if rules & {"driver-floor", "driver-window"} else "inside"
            key = f"{row['kmd']} {tag}"
            yield Row(table="amdgpu window", key=key, theirs="inside" if line in listed else "outside", ours=ours)


def _line(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")[:2]))


def amd_names(matrix: Matrix) -> Iterator[Row]:
    """The chip of every AMD product, asked by each of its names; what stands in brackets is no part of them."""
    for row in facts("amd_gpus")["gpu"]:
        for name in re.sub(r"\s*\(.*?\)", "", row["name"]).split(" / "):
            answer = ask(matrix, accept=ANY, scheme="linux-rocm", gpu=name, torch="2.12.1", backend="rocm7.2")
            if isinstance(answer, str):
                ours = "varies" if "may mean several" in answer else "unknown" if answer.startswith("unknown GPU") else answer
            else:
                card = answer.judged[0].candidate.accelerator
                ours = (card.arch or "unknown") if card else "no card"
            key = row["name"] if name == row["name"] else f"{name} of {row['name']}"
            yield Row(table="AMD product", key=key, theirs=row["gfx"], ours=ours)


# ---- other vendors -----------------------------------------------------------------------------------------------


def ascend_pairs(matrix: Matrix) -> Iterator[Row]:
    """Huawei's table of torch, torch-npu and CANN, asked by torch and CANN; the lines of 26.1.1 name a range of CANN instead."""
    for row in facts("ascend")["torch_npu"]:
        if row.get("historical") or row["cann"].endswith("X"):
            continue
        wish = {"scheme": "linux-npu", "gpu": "Ascend 910B", "torch": row["torch"], "backend": f"npu {row['cann']}"}
        answer = ask(matrix, accept=ANY, **wish)
        made = plan(answer)
        ours = next((each.version for each in made.packages if each.name == "torch-npu"), "none") if made else "no plan"
        yield Row(table="Ascend pair", key=f"torch {row['torch']}, CANN {row['cann']}", theirs=row["version"], ours=ours)


def gaudi_pairs(matrix: Matrix) -> Iterator[Row]:
    """The torch of each release of Intel's Gaudi software."""
    for row in facts("intel")["gaudi"]:
        answer = ask(matrix, accept=ANY, scheme="linux-hpu", gpu="Gaudi 2", backend=f"hpu {row['software']}")
        made = plan(answer)
        ours = made.framework_version if made else "unknown"
        theirs = f"{row['torch']}.0" if row["torch"].count(".") == 1 else row["torch"]
        yield Row(table="Gaudi pair", key=row["software"], theirs=theirs, ours=ours)


def mps_floors(matrix: Matrix) -> Iterator[Row]:
    """The macOS that torch's own check for Metal wants, for each wheel whose check was read."""
    order = sorted(name for name in matrix.platforms if name.startswith("macos-"))
    for row in facts("apple")["mps_runtime_floor"]:
        least = _line(row["min_macos"])
        for torch in row["checked_wheels"]:
            for name in order:
                number = _line(name.partition("-")[2])
                if number[0] == least[0] and least[1:] > number[1:]:
                    continue  # "macos-12" does not tell whether it is 12.3
                answer = ask(matrix, accept=ANY, scheme="macos-mps", os=f"{name}/arm64", gpu="Apple M1", torch=torch)
                theirs = "runs" if number >= least else "too old"
                yield Row(table="mps floor", key=f"{torch} {name}", theirs=theirs, ours="runs" if plan(answer) else "too old")


# ---- PyTorch -----------------------------------------------------------------------------------------------------

_PLACES = {
    "linux_x86_64": ("linux-cpu", "linux/x86_64"),
    "linux_aarch64": ("linux-cpu", "linux/aarch64"),
    "windows_x86_64": ("windows-cpu", "windows/x86_64"),
    "macos_arm64": ("macos-cpu", "macos/arm64"),
    "macos_x86_64": ("macos-cpu", "macos/x86_64"),
}


def torch_pythons(matrix: Matrix) -> Iterator[Row]:
    """The Pythons that every torch release on PyPI has wheels for, by platform; Linux has there the build of one CUDA."""
    every = sorted({python for row in facts("torch_releases")["release"] for python in row["pythons"]}, key=_python_key)
    for row in facts("torch_releases")["release"]:
        for place, (scheme, os) in _PLACES.items():
            if scheme not in matrix.schemes:
                continue
            wish = {"scheme": scheme, "os": os, "torch": row["version"]}
            if (cuda := row.get(f"pypi_cuda_{place}", "cpu_only")) != "cpu_only":
                wish |= {"scheme": "linux-cuda", "backend": f"cu{cuda.replace('.', '')}"}
            there = row.get(f"pythons_{place}", row["pythons"]) if place in row["platforms_pypi"] else []
            ours = [python for python in every if _has_wheel(ask(matrix, accept=ANY, python=python, **wish))]
            theirs = " ".join(sorted(there, key=_python_key))
            yield Row(table="torch Pythons", key=f"{row['version']} {place}", theirs=theirs, ours=" ".join(ours))


def _has_wheel(answer: Resolution | str) -> bool:
    """Whether a build for that system and Python is known, whatever the libraries beside it lack."""
    rejected = ({a.rule for a in each.answers if a.kind is Kind.REJECTED} for each in judged(answer))
    return any(rules <= {"libraries"} for rules in rejected)


def _python_key(text: str) -> tuple[int, bool]:
    return int(text.removesuffix("t")[2:]), text.endswith("t")


Table = Callable[[Matrix], Iterator[Row]]
PEERS: tuple[Table, ...] = (uv_drivers, uv_chips, uv_first, uv_indexes, cog_torch, cog_images, cog_images_listed)
VENDORS: tuple[Table, ...] = (
    cuda_floors,
    toolkit_drivers,
    driver_branches,
    kernel_modules,
    toolkit_least,
    code_runs_on,
    nvidia_names,
    rocm_lists,
    amdgpu_windows,
    amd_names,
    ascend_pairs,
    gaudi_pairs,
    mps_floors,
    torch_pythons,
)
