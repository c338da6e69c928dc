"""Causes that lie in Windows itself: its runtime libraries and its limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envkit.doctor.case import Case
from envkit.model import Finding, Os

_OMP = "pytorch/pytorch issue #131662: https://github.com/pytorch/pytorch/issues/131662"
_VC = "Microsoft Visual C++ Redistributable, latest downloads: https://learn.microsoft.com/cpp/windows/latest-supported-vc-redist"
_LONG = "Microsoft, maximum path length: https://learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation"
_PIP_LONG = "pip, long paths: https://pip.pypa.io/warnings/enable-long-paths"

_REDIST = "https://aka.ms/vc14/vc_redist.x64.exe"
_MAX_PATH = 260
# Names and folders are replaced in reports by shorter ones, so a path that comes near the limit counts.
_NEAR = 235


def _on_windows(case: Case) -> bool:
    return case.os in (Os.WINDOWS, None)


def windows_libomp140_missing(case: Case) -> Iterator[Finding]:
    """torch's fbgemm.dll wants an OpenMP library that the wheel does not bring along."""
    said = case.hit(r"libomp140\S*\.dll|fbgemm\.dll")
    if said is None or not _on_windows(case):
        return
    error = case.hit(
        r"WinError 126|0x7E\b|specified module could not be found|找不到|missing|not found|or one of its dependencies"
    )
    if error is None:
        return
    version = case.torch.version
    known = version.startswith("2.4.0") or not version
    named = case.hit(r"libomp140")
    yield Finding(
        cause="windows-libomp140-missing",
        message=(
            f"torch {version or ''} needs libomp140.x86_64.dll, which its wheel does not bring and this Windows does not have"
        ).replace("  ", " "),
        evidence=tuple(dict.fromkeys(str(hit) for hit in (said, named, error) if hit))
        + ((f"torch.version: {version}",) if version else ()),
        remedy=(
            "Install torch 2.4.1 or newer, whose wheel has it; or the C++ build tools of Visual Studio, which bring that library."
        ),
        commands=('python -m pip install "torch>2.4.0"',) if known else ("python -m pip install --upgrade torch",),
        sources=(_OMP,),
        likelihood=94 if known or named else 84,
    )


_TORCH_DLL = (
    r"(?:c10|torch_python|torch_cpu|torch|shm|asmjit|caffe2\w*|uv|torch_global_deps|onnxruntime\w*|_C|amdhip64\w*)\.(?:dll|pyd)"
)


def windows_vcredist_old_or_missing(case: Case) -> Iterator[Finding]:
    """The Visual C++ runtime is absent, or older than the wheel was built with."""
    if not _on_windows(case) or case.hit(r"fbgemm\.dll|libomp140") is not None:
        return
    named = case.hit(
        r"Visual C\+\+ Redistributable is not installed|(?:vcruntime140(?:_1)?|msvcp140(?:_\w+)?|concrt140"
        r"|vcomp140)\.dll.*(?:not found|missing|was not|fehlt|找不到|introuvable)"
        r"|(?:missing|not found|找不到)\W.*(?:vcruntime140(?:_1)?|msvcp140(?:_\w+)?|concrt140|vcomp140)\.dll|(?:install"
        r"|update|repair)\w* .*(?:vc_redist|visual c\+\+ redist)"
    )
    error = case.hit(rf"WinError (?:126|127|1114|182)\b.*?{_TORCH_DLL}|(?:error loading|loading).*{_TORCH_DLL}") or (
        case.hit(r"WinError (?:126|127|1114)\b|DLL load failed") and case.hit(rf"[\\/]{_TORCH_DLL}")
    )
    binding = case.hit(
        r"DLL load failed while importing (?:_C|onnxruntime_pybind11_state|_pywrap_tensorflow\w*|torch\w*|_native)"
    )
    if named is None and error is None and binding is None:
        return
    if case.hit(r"torch_directml|intel_extension|intel-ext-pt|WinError 1455|paging file") is not None:
        return
    code = case.hit(r"WinError (126|127|1114|182)")
    version = case.hit(
        r"(?:vc_?redist\S*|visual c\+\+ 20\d\d\S*(?: redistributable)?|vcruntime140\.dll"
        r"|msvcp140\.dll).*?\b(14\.\d+\.\d+(?:\.\d+)?)"
    )
    packaged = next(
        (
            f"{name} {text}"
            for name, text in case.machine.system_packages.items()
            if re.search(r"visual c\+\+|vc_?redist|vcredist", name, re.I)
        ),
        "",
    )
    how = (
        "older than this wheel needs"
        if version or packaged or (code and code[1] in ("1114", "127"))
        else "absent, or older than this wheel needs"
    )
    evidence = [str(hit) for hit in (named, error, binding, version) if hit]
    evidence += [f"machine.system_packages: {packaged}"] if packaged else []
    yield Finding(
        cause="windows-vcredist-old-or-missing",
        message=f"the Visual C++ runtime of this Windows is {how}",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Install the newest Visual C++ Redistributable for x64 (Repair, where it is there already), then start a new shell."
        ),
        commands=(f"curl -LO {_REDIST}", "vc_redist.x64.exe /install /passive /norestart"),
        sources=(_VC, "pytorch/pytorch issue #65214: https://github.com/pytorch/pytorch/issues/65214"),
        likelihood=93 if named else 86 if error else 72,
    )


def windows_long_path(case: Case) -> Iterator[Finding]:
    """A path is longer than Windows takes without a switch."""
    if not _on_windows(case):
        return
    hint = case.hit(r"Windows Long Path support enabled|enable-long-paths")
    long = case.hit(
        r"WinError 206|filename or extension is too long|file ?name too long|path too long|MAX_PATH"
        r"|Dateiname oder die Erweiterung ist zu lang|文件名或扩展名太长"
    )
    lost = case.hit(
        r"(?:\[?Errno 2\]?|WinError [23]\b|No such file or directory|cannot find the path)[^'\"]*['\"]([A-Za-z]:[^'\"]+)"
    )
    path = lost[1].replace("\\\\", "\\") if lost else ""
    off = case.hit(r"LongPathsEnabled\W+(?:REG_DWORD\W+)?(?:0x)?0+\b")
    on = case.hit(r"LongPathsEnabled\W+(?:REG_DWORD\W+)?(?:0x)?0*1\b")
    store = "PythonSoftwareFoundation.Python" in path
    by_length = len(path) >= _NEAR or (len(path) >= 200 and (off is not None or store))
    if hint is None and long is None and not (lost and by_length):
        return
    if (
        long is not None
        and case.os is None
        and not re.search(r"WinError|[A-Za-z]:\\|windows", long.line + case.request, re.IGNORECASE)
    ):
        return
    if hint is not None and lost and len(path) < 120 and not store and long is None and on is not None:
        return
    evidence = [str(hit) for hit in (long, hint, lost, off) if hit]
    evidence += [f"path: {len(path)} characters as it is told here, of {_MAX_PATH}"] if path else []
    switched = "; the switch is on, so the program itself does not follow it" if on else ""
    yield Finding(
        cause="windows-long-path",
        message=f"a path is longer than the {_MAX_PATH} characters that Windows takes by default{switched}",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Switch long paths on (as administrator) and open a new shell; or make the environment in a short folder "
            "near the root of the drive, with the Python of python.org instead of the Store's."
        ),
        commands=(
            r"reg add HKLM\SYSTEM\CurrentControlSet\Control\FileSystem /v LongPathsEnabled /t REG_DWORD /d 1 /f",
            r"py -m venv C:\e",
        ),
        sources=(_LONG, _PIP_LONG),
        likelihood=94 if hint or long else 88,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    windows_libomp140_missing,
    windows_vcredist_old_or_missing,
    windows_long_path,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "windows-libomp140-missing": ("windows-vcredist-old-or-missing", "cpu-only-wheel"),
    "windows-vcredist-old-or-missing": ("cpu-only-wheel", "rocm-windows-runtime-regression"),
}
