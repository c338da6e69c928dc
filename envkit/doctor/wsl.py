"""Causes that lie in WSL2, and in what a library path puts first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envkit.doctor import commands
from envkit.doctor.case import Case, Hit
from envkit.doctor.container import known, request_line
from envkit.model import Finding, Os
from envkit.resolve.target import card_name

_BUG = "microsoft/WSL issue 11277: https://github.com/microsoft/WSL/issues/11277"
_CUDNN = "pytorch/pytorch issue 80637: https://github.com/pytorch/pytorch/issues/80637"
_STUB = "CUDA C++ guide, stub library (error 34): https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html"


def _wsl(case: Case) -> str:
    """What shows that this is WSL; "" where nothing does."""
    if case.wsl:
        return "machine.wsl: true"
    if "microsoft" in case.machine.kernel.lower():
        return f"machine.kernel: {case.machine.kernel}"
    if case.os in (Os.MACOS,):
        return ""
    hit = case.hit(r"microsoft-standard|/usr/lib/wsl\b|\bWSL ?2?\b|\bdxcore\b|/dev/dxg|/mnt/[a-z]/(?:windows|users)", *())
    if hit:
        return str(hit)
    line = request_line(case, r"\bwsl(?:2|\.exe)?\b|/usr/lib/wsl")
    return f"request: {line}" if line else ""


def _evidence(*lines: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in (str(line) if line else "" for line in lines) if text))


_FAILS = (
    r"gpu access blocked by the operating system|couldn'?t communicate with the nvidia driver"
    r"|failed to (?:initialize|properly shut down) nvml|driver/library version mismatch"
    r"|no cuda-capable device|no cuda gpus are available|cuda_error_no_device|cuinit\S*.*(?:100|error|fail)"
    r"|found no nvidia driver|cudaGetDeviceCount\S*.*\b(?:100|3|35|34|999|500)\b"
    r"|CUDA (?:driver )?initialization|driver not loaded|segmentation fault|no devices were found"
    r"|is_available\(\)?\W*false|^\s*false\s*$|unknown error|torch is not able to use gpu"
    r"|libnvidia-ml\.so|could not find (?:cuda drivers|libcuda)|cuda is not available|not found.*gpu"
    r"|no nvidia gpu|driver version is insufficient|stub library|error 34\b"
)

# ---- WSL: the driver is Windows' ---------------------------------------------------------------------------------

_LINUX_DRIVER = (
    r"^(?:libnvidia-(?:compute|gl|cfg1|extra|decode|encode|fbc1|common|ml1|cfg|nvcuvid)\S*"
    r"|nvidia-(?:driver|utils|compute-utils|headless|dkms|kernel-\w+|smi|open|libs?|settings)\S*"
    r"|libcuda1\S*|cuda-drivers\S*|cuda-compat\S*|xserver-xorg-video-nvidia\S*|nvidia)$"
)
_NOT_A_DRIVER = r"container|cuda-toolkit|cudnn|nccl|nvidia-settings|nvidia-prime|visual-profiler|cuda-dev"
_INSTALLED = (
    r"^(?:ii|iU|rc|iF)\s+(?P<dpkg>(?:libnvidia-(?:compute|gl|cfg1|extra|decode|encode|common)"
    r"|nvidia-(?:driver|utils|compute-utils|dkms|kernel|headless)|cuda-drivers|libcuda1)\S*)"
    r"|^(?P<apt>(?:libnvidia-(?:compute|gl)|nvidia-(?:driver|utils|dkms)|cuda-drivers|libcuda1)\S*)/\S+.*\[installed"
    r"|\b(?:apt(?:-get)?|dnf|yum|pacman|zypper)\b.*\binstall\b.*?\b(?P<typed>nvidia-(?:driver|utils|dkms|headless"
    r"|compute)\S*|libnvidia-compute\S*|cuda-drivers\S*|nvidia-smi|cuda|libcuda1)(?=\s|$|:)"
    r"|\bpacman\b.*-S\S*\s.*\b(?P<pacman>nvidia(?:-utils|-dkms|-open)?)\b"
    r"|\bNVIDIA-Linux-x86_64-\S+\.run|ubuntu-drivers (?:auto)?install"
)
_WRONG_PLACE = (
    r"libcuda\.so(?:\.1)?\S*\s*(?:\(\S*\)|\(libc6,x86-64\))?\s*(?:=>|->)\s*(?P<lib>/(?!usr/lib/wsl|\S*/wsl/)\S*/libcuda\.so\S*)"
    r"|libnvidia-ml\.so(?:\.1)?\S*\s*(?:\(\S*\))?\s*(?:=>|->)\s*(?P<ml>/(?!usr/lib/wsl|\S*/wsl/)\S*/libnvidia-ml\.so\S*)"
    r"|^(?P<which>/usr/(?:local/)?bin/nvidia-smi)\s*$|^\S*\s*(?P<file>/(?:usr/)?lib/x86_64-linux-gnu/lib(?:cuda"
    r"|nvidia-ml)\.so\.\d{3}\.\d+\S*)"
)


def wsl_linux_driver(case: Case) -> Iterator[Finding]:
    """Linux driver packages inside WSL stand before the stub of the Windows driver."""
    wsl = _wsl(case)
    if not wsl or case.torch.available or case.in_container:
        return
    packages = [
        f"{name} {version}".strip()
        for name, version in case.machine.system_packages.items()
        if re.match(_LINUX_DRIVER, name)
        and not re.search(_NOT_A_DRIVER, name)
        and version.lower() not in ("none", "not-installed", "")
    ]
    installed = next((hit for hit in case.hits(_INSTALLED) if not re.search(r"container", hit.match[0])), None)
    typed = request_line(case, _INSTALLED)
    place = case.hit(_WRONG_PLACE)
    failed = case.hit(_FAILS)
    if failed is None and case.torch.available is None and not place:
        return
    blocked = case.hit(r"gpu access blocked by the operating system")
    if not (packages or installed or place or typed):
        if not blocked:
            return
        likelihood = 66
    else:
        likelihood = 91 if packages or installed or place else 86
    if place and place.match.groupdict().get("which") and not (packages or installed or typed or blocked) and failed is None:
        return
    # A crash, with nothing but a path beside it, has another cause.
    if not packages and not installed and not typed and not blocked and failed is None:
        return
    names = [text.split()[0] for text in packages] or (
        [installed["dpkg"] or installed["apt"]] if installed and (installed["dpkg"] or installed["apt"]) else []
    )
    wanted = tuple(dict.fromkeys(name.partition(":")[0] for name in names)) or (
        "'libnvidia-*'",
        "'nvidia-driver-*'",
        "'nvidia-utils-*'",
        "libcuda1",
    )
    yield Finding(
        cause="wsl-linux-driver-shadows-stub",
        message=(
            "a Linux driver was installed inside WSL; its libraries stand before the stub of the Windows "
            "driver, the only one that works there"
        ),
        evidence=_evidence(
            *(f"machine.system_packages: {text}" for text in packages[:3]),
            installed,
            f"request: {typed}" if typed else "",
            place,
            failed,
            wsl,
        ),
        remedy=(
            "Remove every NVIDIA driver package inside the distribution and run wsl --shutdown in Windows: the "
            "driver is installed in "
            "Windows alone. Of CUDA take the toolkit (cuda-toolkit), not the packages cuda or cuda-drivers."
        ),
        commands=(*commands.remove(case, *wanted), "sudo ldconfig", "wsl.exe --shutdown"),
        sources=(known()["wsl"]["source"],),
        likelihood=likelihood,
    )


_CRASH = r"segmentation fault|SIGSEGV|\bsegfault\b|core dumped|exit(?:ed)? (?:code|status)?\W*139|speicherzugriffsfehler|段错误"
_SYMBOL = (
    r"(?:error 500|cudaGetDeviceCount).*named symbol not found"
    r"|named symbol not found.*(?:cudaGetDeviceCount|500)|^.*error 500: named symbol"
)


def wsl_driver_bug(case: Case) -> Iterator[Finding]:
    """A release of the Windows driver whose part for WSL fails."""
    wsl = _wsl(case)
    desktop = case.os is Os.WINDOWS and request_line(case, r"docker|wsl|podman")
    if not (wsl or desktop) or case.torch.available:
        return
    crash = case.hit(_CRASH, "nvidia-smi", "dmesg", "journal", "wsl") or (
        case.hit(_CRASH)
        if case.hit(r"nvidia-smi", "error", "dmesg") or "nvidia-smi" in " ".join(case.facts.evidence) + case.request
        else None
    )
    by_torch = case.hit(_CRASH) if crash is None and (case.torch.version or case.hit(r"torch|cuda")) else None
    symbol = case.hit(_SYMBOL)
    broken = case.hit(r"cuda version\s*:\s*ERR", "nvidia-smi")
    if not (crash or symbol or broken or by_torch):
        return
    windows = case.hit(r"^\s*GPU \d+:|driver version", "nvidia-smi.exe", "windows", "powershell", "cmd")
    worked = case.hit(
        r"\b(?:downgrad|roll(?:ed|ing)? ?back|previous driver|older driver|(?:before|after) (?:the |updating "
        r"|upgrading )?(?:windows )?(?:driver|update)|works? (?:with|on) (?:driver )?\d{3})"
    ) or next(
        (
            Hit(place, text.splitlines()[0] if text else "", match)
            for place, text in case.facts.evidence.items()
            if (match := re.search(r"\b(?:before|earlier|previous|old(?:er)?) ", place, re.IGNORECASE))
        ),
        None,
    )
    driver = case.hit(r"driver version\s*:\s*(\d{3}\.\d{2,3})")
    number = case.machine.driver.kernel or (driver[1] if driver and not worked else "")
    yield Finding(
        cause="wsl-windows-driver-bug",
        message=f"the part for WSL of the Windows driver{f' {number}' if number else ''} fails: "
        + ("nvidia-smi crashes inside WSL alone" if crash else "CUDA fails as soon as it starts, inside WSL alone"),
        evidence=_evidence(
            crash or by_torch,
            symbol,
            broken,
            windows,
            worked,
            f"machine.driver.kernel: {case.machine.driver.kernel}" if case.machine.driver.kernel else "",
            wsl,
        ),
        remedy=(
            "Install another release of the NVIDIA driver in Windows, newer or the last that worked, and run wsl --shutdown. "
            "Inside the distribution nothing needs to change."
        ),
        commands=("wsl.exe --shutdown", "wsl.exe --update"),
        sources=(
            _BUG,
            "AbdBarho/stable-diffusion-webui-docker issue 694: https://github.com/AbdBarho/stable-diffusion-webui-docker/issues/694",
        ),
        likelihood=90 if crash and (windows or worked) else 88 if crash or symbol else 58,
    )


_NO_DXG = (
    r"/dev/dxg\S*[\"']?:? .*(?:no such file|not found|does not exist|missing|cannot)"
    r"|(?:cannot access|no such file|not found|missing|no) .{0,12}/dev/dxg"
    r"|dxcore initialization failed|no adapters were found|/usr/lib/wsl(?:/lib)?\S*[\"']?:? .*no such file"
    r"|cannot access '?/usr/lib/wsl|failed to (?:load|open) libdxcore|libdxcore\.so: cannot open"
    r"|(?:dxg|wsl).*does not support gpu|gpu support (?:is )?(?:not available|unavailable)"
)
_BUILD = r"10\.0\.(\d{5})(?:\.\d+)?|\bOS build (\d{5})\b|\bbuild[: ]+(\d{5})\b"
_WSL1 = r"\b4\.4\.0-\d+-Microsoft\b|\bWSL version\W+1\b|default version: 1\b|^\s*\*?\s*\S+\s+(?:Running|Stopped)\s+1\s*$"


def wsl_too_old(case: Case) -> Iterator[Finding]:
    """A Windows, or a WSL, that hands no GPU to the distribution."""
    wsl = _wsl(case)
    if not wsl or case.torch.available:
        return
    said = case.hit(_NO_DXG)
    gone = case.has_device(r"^/dev/dxg$") is False
    kernel = case.machine.kernel
    one = case.hit(_WSL1) or (re.search(r"4\.4\.0-\d+-Microsoft", kernel) and f"machine.kernel: {kernel}")
    build, build_line = _windows_build(case)
    old = build is not None and not _serves(build, build_line)
    kernel4 = re.match(r"4\.19\.", kernel) is not None
    failed = case.hit(_FAILS)
    if not (said or one or old or (gone and (failed or case.torch.available is False or case.gpus)) or (kernel4 and failed)):
        return
    if (old or one) and not (said or gone or failed or case.torch.available is False):
        return
    # No adapter at all: a Windows that is new enough has no driver, or no card that it hands on.
    fine = build is not None and not old and not one
    cards = case.cards("nvidia") or case.cards("amd") or case.cards("intel")
    what = (
        "this is WSL 1, which has no GPU"
        if one
        else (
            f"Windows build {build} hands no GPU to WSL"
            if old
            else "WSL has no /dev/dxg: this Windows, or its WSL, hands no GPU to it"
        )
    )
    remedy = (
        "Turn the distribution into one of WSL 2."
        if one
        else (
            f"Update Windows (10 from build {known()['wsl']['first_build']['10']} on, or 11), WSL itself and the "
            f"card's driver in Windows."
        )
    )
    yield Finding(
        cause="wsl-windows-too-old",
        message=what,
        evidence=_evidence(
            said,
            "machine.devices: no /dev/dxg" if gone else "",
            one,
            build_line if old else "",
            f"machine.kernel: {kernel}" if kernel4 else "",
            failed if not said else "",
            f"machine.gpu: {card_name(cards[0])}" if cards and gone else "",
            wsl,
        ),
        remedy=remedy,
        commands=("wsl.exe --set-version DISTRIBUTION 2",) if one else ("wsl.exe --update", "wsl.exe --shutdown"),
        sources=(known()["wsl"]["source"],),
        likelihood=92 if (old or one) else 58 if fine else 84 if said or gone else 66,
    )


def _windows_build(case: Case) -> tuple[int | None, str]:
    for place, text in (("machine.kernel", case.machine.kernel), ("machine.os_release", case.machine.os_release)):
        found = re.search(_BUILD, text, re.IGNORECASE)
        if found:
            return int(next(group for group in found.groups() if group)), f"{place}: {text}"
    hit = case.hit(_BUILD, "ver", "systeminfo", "windows", "cmd", "powershell", "error", "wsl")
    if hit:
        return int(next(group for group in hit.match.groups() if group)), str(hit)
    return None, ""


def _serves(build: int, line: str) -> bool:
    """Whether a build hands GPUs to WSL2."""
    first = known()["wsl"]["first_build"]
    if re.search(r"server", line, re.IGNORECASE):
        return build >= int(first["server"])
    return build >= int(first["10"])


_COUNT_FAILS = (
    r"out of memory|cudaErrorMemoryAllocation|cuda_error_out_of_memory|cudaGetDeviceCount\S*.*\b2\b"
    r"|\berror:? 2\b|cuinit\S*.*\b2\b|only 0 devices available|oom\b"
)


def wsl_gpu_count(case: Case) -> Iterator[Finding]:
    """More cards than WSL can hand to one process."""
    wsl = _wsl(case)
    failed = case.hit(_COUNT_FAILS)
    if not wsl or (failed is None and case.torch.available is not False):
        return
    border = int(known()["wsl"]["too_many_cards"])
    listed = {hit[1] for hit in case.hits(r"^\s*GPU (\d+): ")} or {
        hit[1] for hit in case.hits(r"^\|\s+(\d+)\s+\S.*(?:nvidia|tesla|geforce|quadro|rtx|gtx)", "nvidia-smi")
    }
    count = max(len(case.cards("nvidia")), len(listed))
    told = case.hit(
        r"\b([4-9]|1\d|four|six|eight|all four) ?[x×*]? ?(?:gpus?|cards|rtx|nvidia|geforce|gtx|tesla"
        r"|quadro|[ahl]\d+|张|块|\S* ?[2345]0\d0s?)"
    )
    fewer = case.hit(r"^\s*True\s*$|works?|success|is_available.*true|^\s*[123]\s*$", "CUDA_VISIBLE_DEVICES") or case.hit(
        r"(?:works?|fine|ok|success|no error|不报错).{0,60}(?:three|3|two|2|1|one|fewer|any) (?:gpus?|cards?|of)"
        r"|with (?:three|two|3|2|one) (?:gpus?|cards?).*(?:works?|fine)|CUDA_VISIBLE_DEVICES=[\d,]+.*(?:works?|true|fine"
        r"|不报错)"
    )
    if count < border and not (told and failed) and not (fewer and failed):
        return
    if failed is None and not fewer:
        return
    # Out of memory in the midst of training is what it says.
    if failed and re.search(r"tried to allocate", failed.line, re.IGNORECASE) and not fewer:
        return
    yield Finding(
        cause="wsl-gpu-count-limit",
        message=f"{count or 'several'} cards are more than WSL can hand to one process: CUDA fails when it counts them",
        evidence=_evidence(
            failed,
            told,
            fewer,
            f"machine.gpu: {count} x {card_name(case.cards('nvidia')[0])}" if case.cards("nvidia") else "",
            wsl,
        ),
        remedy=(
            f"Show the process fewer than {border} cards (CUDA_VISIBLE_DEVICES, set before Python starts; or "
            f"switch cards off for WSL in the "
            "Device Manager), or run Linux on the machine itself."
        ),
        commands=(commands.export(case, "CUDA_VISIBLE_DEVICES", ",".join(str(number) for number in range(border - 1))),),
        sources=(known()["wsl"]["source_many"],),
        likelihood=91 if failed and (count >= border or fewer) else 78,
    )


# ---- library paths -----------------------------------------------------------------------------------------------

_PATH = "LD_LIBRARY_PATH"


def library_path(case: Case) -> tuple[str, str]:
    """What LD_LIBRARY_PATH is for the failing process, and the line that tells; "" where it is not known to be set."""
    value = case.facts.env.get(_PATH)
    if value:
        return value, f"env.{_PATH}: {value}"
    printed = case.variable(_PATH)
    if printed and "/" in printed:
        return printed.splitlines()[0].rpartition("=")[2], f"{_PATH}: {printed.splitlines()[0]}"
    for place, text in (("request", case.request), *case.facts.evidence.items()):
        found = re.search(rf"{_PATH}\W{{0,3}}[=:]\s*[\"']?([^\s\"';]*/[^\s\"';]*)", text)
        if found and not re.search(r"unset|env -u", text[max(0, found.start() - 20) : found.start()]):
            return found[1], f"{place}: {found[0]}"
    return "", ""


def _folders(case: Case) -> list[str]:
    return [folder.rstrip("/") for folder in library_path(case)[0].split(":") if folder]


# Folders with a libcuda or an NVML that is not the driver's.
_SHADOWS = (
    r"/stubs$|/nix/store/\S*(?:nvidia|cuda|driver)\S*|/run/opengl-driver|/nvidia-x11|/compat(?:/lib)?$"
    r"|cuda-compat|libcuda|/nix/store/\S+/lib$|/\.nix-profile/lib|/nvidia[/-]?\d{3}"
    r"|/usr/lib/nvidia-\d+|/(?:opt|home|root|data|srv|mnt)/\S*(?:nvidia|driver|stub)\S*|/steam-runtime|/flatpak"
)
_STUBBED = (
    r"stub library|CUDA_ERROR_STUB_LIBRARY|cudaErrorStubLibrary|\berror:? 34\b"
    r"|cudaGetDeviceCount\S*.*\b34\b|you (?:should always run with|are running with) libnvidia-ml"
    r"|(?:do not run with|linked against) (?:the )?stub|NVML: .*stub|code 34\b"
)
_FOREIGN = (
    r"(?:lib(?:cuda|nvidia-ml)\.so(?:\.1)?\S*)\s*(?:\(\S*\))?\s*(?:=>|->|:)\s*(/\S*(?:stubs|/nix/store|compat"
    r"|conda|/usr/local/cuda|/opt|/home|\.local|nvidia-x11)\S*/lib(?:cuda|nvidia-ml)\S*)"
    r"|(?:calling init:|trying file=|openat\(.*?\"|file=|loaded|mapped|^[0-9a-f]+-[0-9a-f]+ .*)\s*(/\S*(?:stubs"
    r"|/nix/store|compat|/opt|/home)\S*/lib(?:cuda|nvidia-ml)\.so\S*)"
)
_WITHOUT = rf"(?:env -u {_PATH}|unset {_PATH}|{_PATH}=(?:\"\"|''|\s)|without {_PATH}|{_PATH}= )"


def shadowed_libcuda(case: Case) -> Iterator[Finding]:
    """LD_LIBRARY_PATH puts another libcuda or NVML before the driver's own."""
    if case.torch.available or case.os in (Os.WINDOWS, Os.MACOS):
        return
    value, line = library_path(case)
    stub, foreign, failed = case.hit(_STUBBED), case.hit(_FOREIGN), case.hit(_FAILS)
    folders = _folders(case)
    shadowing = [folder for folder in folders if re.search(_SHADOWS, folder)]
    wsl = _wsl(case)
    if wsl and value:
        own = next((place for place, folder in enumerate(folders) if folder == "/usr/lib/wsl/lib"), len(folders))
        shadowing += [
            folder
            for folder in folders[:own]
            if re.match(r"/(?:usr/)?lib(?:64|/x86_64-linux-gnu|/nvidia\S*)?$", folder) and folder not in shadowing
        ]
    cured = next(
        (
            f"{place}: {text.splitlines()[0]}"
            for place, text in case.facts.evidence.items()
            if re.search(_WITHOUT, place + " ")
            and text.strip()
            and re.search(
                r"\bTrue\b|NVIDIA-SMI|^GPU \d|^\s*[1-9]\b|driver version|works|ok\b", text, re.IGNORECASE | re.MULTILINE
            )
            and not re.search(r"failed|error|False", text)
        ),
        "",
    ) or str(
        case.hit(
            rf"(?:unset(?:ting)?|without|remov\w+|clear\w+) .{{0,12}}{_PATH}.*(?:works?|fix|True|solv|help)"
            rf"|works? .{{0,30}}(?:unset|without|remov\w+) .{{0,12}}{_PATH}"
        )
        or ""
    )
    broken = failed is not None or case.torch.available is False
    if not (stub or (foreign and broken) or (shadowing and broken) or (cured and (broken or value))):
        return
    if case.hit(r"forward compatibility was attempted|error 804|cudnn") and not (stub or cured):
        return
    kinds = (
        "a stub, which is there to link against"
        if stub or any("stubs" in each for each in shadowing)
        else "another libcuda or NVML than the driver's"
    )
    first = shadowing[0] if shadowing else next((group for group in (foreign.match.groups() if foreign else ()) if group), "")
    lines = [commands.unset(case, _PATH)]
    if wsl:
        lines.append(commands.export(case, _PATH, "/usr/lib/wsl/lib"))
    yield Finding(
        cause="ld-library-path-shadows-libcuda",
        message=f"{_PATH} puts {kinds} first{f': {first}' if first else ''}",
        evidence=_evidence(
            stub,
            foreign,
            line if shadowing or cured or stub else "",
            cured,
            failed,
            "torch.available: false" if case.torch.available is False else "",
            wsl,
        ),
        remedy=(
            f"Take that folder out of {_PATH}, in the shell and in the file that sets it"
            + (
                "; in WSL /usr/lib/wsl/lib comes first."
                if wsl
                else "; the driver's own folder is found without it (on NixOS it is /run/opengl-driver/lib)."
            )
        ),
        commands=tuple(lines),
        sources=((known()["wsl"]["source"],) if wsl else (_STUB,)),
        likelihood=93
        if cured and (value or stub)
        else 91
        if stub or (foreign and value)
        else 87
        if any("stubs" in each for each in shadowing)
        else 84
        if shadowing and wsl
        else 78
        if shadowing
        else 80,
    )


_CUDNN_SAID = (
    r"compiled\s+against \(?[\d, ]+\)?,? but (?:found runtime version|linked against)"
    r"|cudnn version (?:incompatibility|mismatch)|LD_LIBRARY_PATH contains incompatible version of cudnn"
    r"|loaded runtime cudnn library:? .* but source was compiled with"
    r"|cudnn library (?:needs|must) (?:to )?have matching major|incompatible version of cudnn"
    r"|CUDNN_STATUS_(?:SUBLIBRARY_)?VERSION_MISMATCH"
    r"|libcudnn\w*\.so\S*.*(?:undefined symbol|version \S+ not (?:defined|found)|symbol lookup error)"
    r"|symbol lookup error.*libcudnn|undefined symbol: cudnn\w+|could not load (?:library|symbol) (?:libcudnn"
    r"|cudnn)\S*.*(?:undefined|error)"
    r"|conflicting cudnn|two (?:different )?versions of cudnn"
)


def cudnn_conflict(case: Case) -> Iterator[Finding]:
    """Another cuDNN than the framework's own is found first."""
    said = case.hit(_CUDNN_SAID)
    if said is None:
        weak = case.hit(
            r"CUDNN_STATUS_(?:NOT_INITIALIZED|INTERNAL_ERROR|EXECUTION_FAILED|NOT_SUPPORTED)"
            r"|unable to find (?:an engine|a valid cudnn algorithm)|could not (?:create|load) cudnn handle"
        )
        folders = [folder for folder in _folders(case) if re.search(r"cud(?:nn|a)", folder, re.IGNORECASE)]
        if weak is None or not folders:
            return
        said = weak
    else:
        folders = [folder for folder in _folders(case) if re.search(r"cud(?:nn|a)|conda|/usr/lib", folder, re.IGNORECASE)]
    versions = case.hit(
        r"against \(?(\d[\d, .]*\d)\)?,? but (?:found runtime version|linked against) \(?(\d[\d, .]*\d)\)?"
    ) or case.hit(r"runtime cudnn library:? ([\d.]+) but source was compiled with:? ([\d.]+)")
    _, line = library_path(case)
    told = ""
    if versions:
        built, found = versions[1].replace(", ", "."), versions[2].replace(", ", ".")
        if "source was" in versions.line.lower():
            built, found = found, built
        told = f": it was built with {built} and found {found}"
    packages = [f"{name} {version}" for name, version in case.packages.items() if name.startswith("nvidia-cudnn")]
    windows = case.os is Os.WINDOWS
    variable = "PATH" if windows else _PATH
    strong = versions is not None or re.search(_CUDNN_SAID, said.line, re.IGNORECASE) is not None
    yield Finding(
        cause="ld-library-path-cudnn-conflict",
        message=f"another cuDNN than the framework's own is loaded first{told}",
        evidence=_evidence(
            said,
            versions if versions and versions.line != said.line else "",
            line if folders else "",
            *(f"python.packages: {text}" for text in packages),
        ),
        remedy=(
            f"Take the folders with another CUDA or cuDNN out of {variable}, in the shell and in what sets it: "
            f"the wheel brings its own. "
            "Where it is a Python package of another release (nvidia-cudnn-cu12), install the one that torch pins again."
        ),
        commands=() if windows else (commands.unset(case, _PATH),),
        sources=(_CUDNN,),
        likelihood=92 if strong and (line or versions) else 88 if strong else 66,
    )


_SYMBOLS = (
    r"undefined symbol: _{0,2}(?:nvJitLink\w*|cublas\w*|cusparse\w*|cusolver\w*|cufft\w*|cuda\w+|nccl\w+"
    r"|nvrtc\w*)|symbol _{0,2}nvJitLink\w+, version \S+ not defined|libnvJitLink\S*.*(?:not found|undefined)"
    r"|(?:libcusparse|libcublas\w*|libcusolver|libnccl|libcudart|libnvrtc)\.so\S*: (?:undefined symbol"
    r"|version \S+ not (?:found|defined))|symbol lookup error.*lib(?:cublas|cusparse|cusolver|nccl)"
)


def cuda_libraries_conflict(case: Case) -> Iterator[Finding]:
    """Another CUDA toolkit's libraries are found before those of the wheel."""
    said = case.hit(_SYMBOLS)
    value, line = library_path(case)
    others = [folder for folder in _folders(case) if re.search(r"cuda|hpc_sdk|nvidia|nccl|conda", folder, re.IGNORECASE)]
    place = case.hit(
        r"ImportError: (/(?:usr/local/cuda|opt|usr/lib)\S*/lib(?:cublas|cusparse|cusolver|cudart|nvJitLink|nccl)\S*):"
    )
    if said is None or not (others or place) or (case.os in (Os.WINDOWS, Os.MACOS)):
        return
    yield Finding(
        cause="ld-library-path-cuda-conflict",
        message="libraries of another CUDA are found before those that came with the wheel"
        + (f": {others[0]}" if others else ""),
        evidence=_evidence(said, place, line if value else ""),
        remedy=f"Take the other CUDA out of {_PATH}: the wheel brings its own libraries and needs no toolkit.",
        commands=(commands.unset(case, _PATH),),
        sources=("pytorch/pytorch issue 111469: https://github.com/pytorch/pytorch/issues/111469",),
        likelihood=88,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    wsl_linux_driver,
    wsl_driver_bug,
    wsl_too_old,
    wsl_gpu_count,
    shadowed_libcuda,
    cudnn_conflict,
    cuda_libraries_conflict,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "wsl-linux-driver-shadows-stub": (
        "wsl-windows-driver-bug",
        "nvidia-nvml-version-mismatch",
        "nvidia-module-not-built",
        "nvidia-driver-too-old",
        "cuda-visible-devices-hides-gpu",
        "wsl-windows-too-old",
        "hardware-fault-suspected",
    ),
    "wsl-windows-driver-bug": (
        "wheel-too-old-for-gpu",
        "wheel-too-new-for-gpu",
        "rocm-gfx-not-in-wheel",
        "nvidia-driver-too-old",
    ),
    "wsl-windows-too-old": (
        "nvidia-module-not-built",
        "container-toolkit-missing",
        "container-no-gpu-flag",
        "cuda-visible-devices-hides-gpu",
    ),
    "wsl-gpu-count-limit": ("none-environment-ok", "cuda-visible-devices-hides-gpu"),
    "ld-library-path-shadows-libcuda": (
        "nvidia-nvml-version-mismatch",
        "nvidia-driver-too-old",
        "nvidia-module-not-built",
        "cuda-visible-devices-hides-gpu",
        "cuda-forward-compat-unsupported-hw",
    ),
}
