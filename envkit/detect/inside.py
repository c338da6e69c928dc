"""The Python in question: what its torch said of itself in a process of its own, and where that process ended."""

from __future__ import annotations

import re
from typing import Any

from envkit.detect.raw import Raw

_TEXTS = ("version", "cuda", "hip", "xpu")
# What a healthy start may print too.
_CHATTER = re.compile(
    r"Failed to initialize NumPy: No module named|cpp_extension|CUDA_HOME|^\s*warnings\.warn\(|^\s*$"
    r"|^  File \"(<string>|.*[\\/]detect[\\/]probe\.py)\", line \d+ in "  # our own frames in the report of a crash
)
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 14: "SIGALRM"}


def torch(raw: Raw) -> dict[str, Any]:
    """What the torch that runs says of itself; empty where it was not asked or cannot be imported."""
    told = raw.table("inside", "torch")
    found: dict[str, Any] = {name: told[name] for name in _TEXTS if isinstance(told.get(name), str)}
    if isinstance(told.get("available"), bool):
        found["available"] = told["available"]
    count = raw.number("inside", "torch", "device_count")
    if count is not None:
        found["device_count"] = count
    for name in ("arch_list", "device_names"):
        if isinstance(told.get(name), list):
            found[name] = list(raw.texts("inside", "torch", name))
    return found


def evidence(raw: Raw) -> dict[str, str]:
    """What failed in there, by the line of Python that shows it; what it printed; the libraries that it loaded."""
    if not raw.table("inside"):
        return {}
    found: dict[str, list[str]] = {}
    for entry in raw.get("inside", "errors") if isinstance(raw.get("inside", "errors"), list) else []:
        if isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, str) for part in entry):
            found.setdefault(_line(entry[0]), []).append(_essence(entry[1]))
    for step, text in _printed(raw.text("inside", "stderr")):
        found.setdefault(_line(step), []).insert(0, text)
    stopped = raw.text("inside", "stopped")
    if stopped:
        found.setdefault(_line(stopped), []).append(_ending(raw))
    packages = raw.texts("python", "plan")
    if packages:
        found["envkit/plan.json"] = ["\n".join(packages)]
    user_site = raw.text("python", "user_site")
    rows = raw.get("python", "distributions")
    from_there = [
        f"{row[0]} {row[1]}"
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, list) and len(row) == 3 and user_site and row[2] == user_site
    ]
    if from_there:
        found["python -m site --user-site"] = [user_site + ": " + ", ".join(map(str, from_there[:20]))]
    libraries = _foreign(raw)
    if libraries:
        found["/proc/self/maps"] = ["\n".join(libraries)]
    return {place: "\n".join(lines) for place, lines in found.items()}


def _printed(text: str) -> list[tuple[str, str]]:
    """What each step printed to standard error, without what a healthy one prints too."""
    from envkit.detect.probe import STEP

    parts = re.split(rf"(?m)^{re.escape(STEP)}(.*)$", text)
    steps = [("start", parts[0]), *zip(parts[1::2], parts[2::2], strict=False)]
    found = []
    for step, said in steps:
        lines = [line for line in said.splitlines() if not _CHATTER.search(line)]
        if lines:
            found.append((step.strip(), "\n".join(lines[-60:])))
    return found


def _line(step: str) -> str:
    if step.startswith("torchvision."):
        return f"python -c 'import torch, torchvision; {step}'"
    prefix = "" if step.startswith("import ") or step == "start" else "import torch; "
    return "python" if step == "start" else f"python -c '{prefix}{step}'"


def _essence(trace: str) -> str:
    """A traceback without the frames in the middle."""
    lines = trace.splitlines()
    return "\n".join(lines if len(lines) <= 14 else [*lines[:2], "  ...", *lines[-11:]])


def _ending(raw: Raw) -> str:
    code = raw.get("inside", "code")
    if raw.get("inside", "timed_out") is True:
        return f"no answer within {raw.get('inside', 'limit')} s: hung, and was ended"
    if isinstance(code, int) and code < 0:
        name = _SIGNALS.get(-code, f"signal {-code}")
        return f"ended by {name}" + (" (Segmentation fault)" if code == -11 else " (Bus error)" if code == -7 else "")
    return f"ended with status {code}"


def _foreign(raw: Raw) -> list[str]:
    """The libraries of vendors that were loaded from elsewhere than beside the packages."""
    home = {folder.rstrip("/") for folder in _folders(raw)}
    return [
        path
        for path in raw.texts("inside", "libraries")
        if not any(path.startswith(folder + "/") for folder in home)
        and "/torch/lib/" not in path  # where the packages are links into a cache
        and not re.match(r"(/usr)?/lib(64|/[\w-]+-linux-gnu)?/lib(stdc\+\+|gomp)", path)
    ]


def _folders(raw: Raw) -> list[str]:
    rows = raw.get("python", "distributions")
    return [row[2] for row in rows if isinstance(row, list) and len(row) == 3 and isinstance(row[2], str)] if rows else []
