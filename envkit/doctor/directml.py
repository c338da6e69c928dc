"""Causes that lie in DirectML's packages and in those of ONNX Runtime, which exclude each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from envkit.doctor.case import Case
from envkit.model import Finding, Os, Severity
from envkit.resolve.candidates import python_key

_PYPI = "PyPI torch-directml: https://pypi.org/project/torch-directml/#files"
_DOC = "Microsoft, PyTorch with DirectML: https://learn.microsoft.com/windows/ai/directml/pytorch-windows"
_ORT = "ONNX Runtime, install: https://onnxruntime.ai/docs/install/"
_SHADOW = "microsoft/onnxruntime issue #14687: https://github.com/microsoft/onnxruntime/issues/14687"

_PLUGINS = r"(?:py)?torch[-_]directml|tensorflow[-_]directml(?:[-_]plugin)?"


def _listed(case: Case) -> Mapping[str, str]:
    """The packages of the facts and those that an installer's list printed."""
    found = dict(case.packages)
    for hit in case.hits(
        r"^\s*(?:\[pip3?\]\s*)?((?:onnxruntime|torch|tensorflow)[\w.-]*?)(?:\s{1,}|==)v?(\d+\.\d[\w.+-]*)(?:\s|$)"
    ):
        found.setdefault(re.sub(r"[-_.]+", "-", hit[1]).lower(), hit[2])
    for hit in case.hits(r"(?:successfully installed|would install|installed)\b.*?\bonnxruntime"):
        for name, version in re.findall(r"\b(onnxruntime(?:-[a-z]+)*)-(\d+\.\d[\w.]*)", hit.line):
            found.setdefault(name, version)
    return found


def directml_python_unsupported(case: Case) -> Iterator[Finding]:
    """No release of the DirectML plugin has wheels for this Python."""
    said = case.hit(
        rf"(?:could not find a version that satisfies the requirement|no matching distribution found for) ({_PLUGINS})\b"
        rf"|\b({_PLUGINS})\b.*has no (?:usable )?wheels|\b({_PLUGINS})\S*.*(?:no wheels with a matching|is not a supported wheel"
        rf"|not supported on this)|there (?:is|are) no versions? of ({_PLUGINS})"
    )
    if said is None:
        return
    name = re.sub("_", "-", next(group for group in said.match.groups() if group)).lower()
    python = ".".join(case.python.split(".")[:2]) if case.python else ""
    if not python and (told := case.hit(r"\bpython(?:\s+version)?:?\s+(3\.\d+)") or case.hit(r"\bcp3(\d+)\b|python3(\d+)\\")):
        python = told[1] if "." in told[1] else f"3.{told[1] or told[2]}"
    rows = case.matrix.libraries.get("torch-directml", ()) if "torch" in name else ()
    served = sorted({each for row in rows for each in row.pythons}, key=python_key)
    # A release of its own was asked for, and another one may be for this Python.
    asked = re.search(rf"{name}==(\S+)", f"{said.line} {case.request}")
    if asked and rows:
        served = sorted({each for row in rows if row.version == asked[1] for each in row.pythons}, key=python_key) or served
    usual = case.machine.arch in ("x86_64", "AMD64", "") and case.os is not Os.MACOS
    if python and python in served and usual and (not asked or "tensorflow" in name):
        return
    where = f" on {case.machine.arch}" if case.machine.arch in ("arm64", "aarch64") else ""
    known = f": it has wheels for {served[0]} to {served[-1]}" if served else ""
    yield Finding(
        cause="directml-python-unsupported",
        message=f"{name} has no wheel for Python {python or 'of this version'}{where}{known}",
        evidence=(str(said), *((f"python.version: {case.facts.python.version or python}",) if python else ())),
        remedy=(
            f"Make the environment with a Python that it serves{f', {served[-1]} at most' if served else ''}; it is not "
            "developed further, so no newer one will come."
        ),
        commands=(f"uv venv --python {served[-1]} env", "uv pip install --python env torch-directml") if served else (),
        sources=(_PYPI, "microsoft/DirectML issue #554: https://github.com/microsoft/DirectML/issues/554"),
        likelihood=92 if python or served else 84,
    )


def directml_torch_pin_conflict(case: Case) -> Iterator[Finding]:
    """torch-directml pins one release of torch, and another one is wanted or installed."""
    packages = _listed(case)
    have, torch = packages.get("torch-directml", ""), packages.get("torch", "")
    wanted = _pinned(case, have)
    said = case.hit(
        r"torch[-_]directml\S*(?: \S+)? (?:requires|depends on) torch\b|because torch[-_]directml\S* depends on torch"
        r"|torch[-_]directml.*(?:conflict|incompatible)"
        r"|cannot install .*torch[-_]directml.*torch|cannot install .*torch.*torch[-_]directml"
        r"|torch[-_]directml and torch\S* .*(?:conflict|incompatible)"
    )
    broken = case.hit(
        r"torch_directml(?:_native)?.*(?:DLL load failed|procedure could not be found|undefined symbol)"
        r"|DLL load failed while importing torch_directml_native"
    )
    swapped = case.hit(r"(?:uninstall(?:ing|ed)|found existing installation:) torch[- ](\d\S*)|^\s*-\s*torch==(\S+)")
    directml = have or "directml" in case.request.lower() or case.hit(r"torch[-_]directml") is not None
    swaps = (
        swapped is not None
        and bool(directml)
        and case.hit(r"successfully installed.*torch[-_]directml|^\s*\+\s*torch[-_]directml|\+ torch==") is not None
    )
    apart = bool(have and torch and wanted) and _plain(torch) != wanted
    if not (said or (broken and directml) or apart or swaps):
        return
    if said is None and have and torch and wanted and not apart:
        return
    if said is not None and not wanted:
        pin = re.search(r"torch(?:==|\()=*\s*(\d+\.\d+(?:\.\d+)?)", said.line)
        wanted = pin[1] if pin else ""
    evidence = [str(hit) for hit in (said, broken, swapped if swaps else None) if hit]
    evidence += [f"python.packages: torch-directml {have}"] if have else []
    evidence += [f"python.packages: torch {torch}"] if torch else []
    yield Finding(
        cause="directml-torch-pin-conflict",
        message=f"torch-directml {have} goes with torch {wanted or 'of one release'} alone".replace("  ", " ")
        + (f"; torch {torch} is installed" if apart else "; something else here wants another torch"),
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Give torch-directml an environment of its own and let it choose torch and torchvision; what needs a newer "
            "torch goes into another."
        ),
        commands=("python -m pip install --force-reinstall torch-directml",),
        sources=(_PYPI, "microsoft/DirectML issue #415: https://github.com/microsoft/DirectML/issues/415"),
        likelihood=93 if said else 88 if apart or swaps else 80,
    )


def _pinned(case: Case, version: str) -> str:
    """The torch that a release of torch-directml is for."""
    for build in case.matrix.frameworks["torch"].builds:
        pin = build.packages.get("torch-directml")
        if version and pin is not None and pin.version == version:
            return build.release
    return ""


def _plain(version: str) -> str:
    return version.partition("+")[0]


# ---- ONNX Runtime ------------------------------------------------------------------------------------------------

_PROVIDERS = {
    "dml": "onnxruntime-directml",
    "directml": "onnxruntime-directml",
    "cuda": "onnxruntime-gpu",
    "tensorrt": "onnxruntime-gpu",
    "nvtensorrtrtx": "onnxruntime-gpu",
    "rocm": "onnxruntime-rocm",
    "migraphx": "onnxruntime-migraphx",
    "openvino": "onnxruntime-openvino",
    "cann": "onnxruntime-cann",
    "qnn": "onnxruntime-qnn",
}
_VARIANT = re.compile(r"onnxruntime(?:-(?:gpu|directml|openvino|rocm|migraphx|cann|qnn|training|training-cpu|vitisai))?$")
_UNKNOWN = (
    r"unknown provider(?: types?| names?)?(?:\(s\))?\W+(\w{2,20}?)(?:ExecutionProvider)?\b"
    r"|['\"]?\b(\w{2,20})ExecutionProvider['\"]? is not in available provider"
    r"|\b(\w{2,20})ExecutionProvider does not contain a subset"
    r"|'\b(\w{2,20})ExecutionProvider' (?:is )?not (?:available|found|supported|enabled)"
    r"|\b(\w{2,20})ExecutionProvider (?:is )?not (?:available|found|supported|in )|execution.provider\S*: invalid choice: '(\w+)'"
    r"|asked for ['\"]?\b(\w{2,20})ExecutionProvider"
)
_AVAILABLE = (
    r"\[\s*(['\"]\w+ExecutionProvider['\"](?:\s*,\s*['\"]\w+ExecutionProvider['\"])*)\s*\]"
    r"|available providers\W{1,20}((?:\w{2,20}ExecutionProvider[, ]*)+)"
)


def _variants(case: Case) -> dict[str, str]:
    return {name: text for name, text in _listed(case).items() if _VARIANT.match(name)}


def _refused(case: Case) -> tuple[str, str]:
    """The provider that could not be had, in short, and the line that says so."""
    for hit in case.hits(_UNKNOWN):
        word = next((group for group in hit.match.groups() if group), "").lower()
        if word in _PROVIDERS:
            return word, str(hit)
    return "", ""


def _offered(case: Case) -> tuple[set[str], str]:
    """The providers that ONNX Runtime listed, and that line."""
    for hit in case.hits(_AVAILABLE):
        if re.search(r"is not in available|does not contain", hit.line) is None or "vailable provider" in hit.line:
            listed = hit[1] or hit[2]
            return {word.lower() for word in re.findall(r"\b(\w{2,20})ExecutionProvider", listed)}, str(hit)
    return set(), ""


def _wanted(case: Case) -> str:
    """The provider that somebody wants, in short."""
    word, _ = _refused(case)
    if word:
        return word
    found = re.search(r"\b(Dml|CUDA|Tensorrt|ROCM|MIGraphX|OpenVINO|CANN|QNN)ExecutionProvider", case.request)
    return found[1].lower() if found else ""


def ort_package_shadowing(case: Case) -> Iterator[Finding]:
    """Two packages of ONNX Runtime are installed, and the files of one overwrote those of the other."""
    there = _variants(case)
    if len(there) < 2:
        return
    word, refused = _refused(case)
    offered, listed = _offered(case)
    special = [name for name in there if name != "onnxruntime"]
    has = {provider for provider, package in _PROVIDERS.items() if package in there}
    if offered & has - {"tensorrt"} and not refused:
        return  # the one that was wanted is there after all
    failing = refused or (listed if offered and not offered & has else "")
    evidence = [failing] if failing else []
    evidence += [f"python.packages: {name} {text}" for name, text in sorted(there.items())]
    keep = _PROVIDERS.get(word, special[0])
    yield Finding(
        cause="ort-package-shadowing",
        message=f"{' and '.join(sorted(there))} are both installed; they write the same files, and the last one wins",
        evidence=tuple(evidence),
        remedy=(
            f"Remove all of them and install {keep} alone; where a dependency asks for plain onnxruntime, install {keep} "
            f"last and with --no-deps."
        ),
        commands=(f"python -m pip uninstall -y {' '.join(sorted(there))}", f"python -m pip install --force-reinstall {keep}"),
        sources=(_SHADOW, _ORT),
        severity=Severity.ERROR if failing else Severity.WARNING,
        likelihood=91 if failing else 80,
    )


def ort_wrong_package(case: Case) -> Iterator[Finding]:
    """The package of ONNX Runtime that is installed does not have the provider that is wanted."""
    there = _variants(case)
    genai = {name: text for name, text in _listed(case).items() if name.startswith("onnxruntime-genai")}
    word, refused = _refused(case)
    offered, listed = _offered(case)
    wanted = word or _wanted(case)
    if not wanted or (not refused and not (offered and wanted not in offered)):
        return
    package = _PROVIDERS[wanted]
    if package in there and not (wanted in ("dml", "directml") and case.os in (Os.LINUX, Os.MACOS)):
        return  # it is there: another cause hides it
    if wanted in ("rocm", "migraphx") and {"onnxruntime-rocm", "onnxruntime-migraphx"} & set(there):
        package = "onnxruntime-migraphx"
    if genai and not there and "genai" not in package:
        package = {"onnxruntime-directml": "onnxruntime-genai-directml", "onnxruntime-gpu": "onnxruntime-genai-cuda"}.get(
            package, package
        )
        if package in genai:
            return
    have = ", ".join(f"{name} {text}" for name, text in sorted({**there, **genai}.items()))
    windows_only = package.endswith("directml") and case.os in (Os.LINUX, Os.MACOS)
    evidence = [line for line in (refused, listed) if line] + ([f"python.packages: {have}"] if have else [])
    yield Finding(
        cause="ort-wrong-package",
        message=f"{have or 'the onnxruntime that is installed'} has no provider for {wanted}; {package} has it"
        + (", on Windows alone" if windows_only else ""),
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Ask for a provider that this system has: DirectML is for Windows alone."
            if windows_only
            else f"Remove the package that is there and install {package} alone: one variant of ONNX Runtime to an environment."
        ),
        commands=()
        if windows_only
        else (
            f"python -m pip uninstall -y {' '.join(sorted({**there, **genai})) or 'onnxruntime'}",
            f"python -m pip install {package}",
        ),
        sources=(_ORT,),
        likelihood=88 if there or genai else 80,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    directml_python_unsupported,
    directml_torch_pin_conflict,
    ort_package_shadowing,
    ort_wrong_package,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "directml-python-unsupported": ("python-no-wheel", "wheel-tag-not-published", "pip-too-old"),
    "directml-torch-pin-conflict": (
        "index-dependency-missing",
        "torchvision-mismatch",
        "cpu-only-wheel",
        "wrong-accelerator-wheel",
    ),
    "ort-package-shadowing": ("ort-wrong-package",),
}
