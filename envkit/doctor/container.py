"""Causes that lie in how a container was made or started."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from envkit.data import packaged
from envkit.doctor import commands
from envkit.doctor.case import Case, Hit
from envkit.model import Finding, Os, Severity
from envkit.resolve.target import card_name

_TOOLKIT = (
    "NVIDIA Container Toolkit: installing it: "
    "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
)
_CDI = "NVIDIA Container Toolkit: CDI: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html"
_NOTICE = "NVIDIA/nvidia-container-toolkit issue 48: https://github.com/NVIDIA/nvidia-container-toolkit/issues/48"
_GPUS = "Docker: GPUs of a container: https://docs.docker.com/engine/containers/resource_constraints/#gpu"
_ROCM_DOCKER = "ROCm: running containers: https://rocm.docs.amd.com/projects/install-on-linux/en/latest/how-to/docker.html"


@cache
def known() -> dict[str, Any]:
    """The borders in known.toml."""
    return tomllib.loads(packaged("doctor/known.toml").read_text(encoding="utf-8"))


# ---- what a report says of containers ----------------------------------------------------------------------------

_RUN = (
    r"\b(?:docker|podman|nerdctl|nvidia-docker)\b(?:\s+-\S+)*\s+(?:container\s+)?(?:run|create|start|exec"
    r"|compose|stack|service)\b"
)
_ENGINE_SAYS = (
    r"error response from daemon|OCI runtime|nvidia-container-(?:cli|runtime)|failed to create (?:shim|task)"
    r"|docker: |^root@[0-9a-f]{12}:"
    r"|/\.dockerenv|docker-compose|docker compose|\bkubectl\b|\bdevcontainer"
)
_GPU_REQUEST = (
    r"--gpus\b|--gpu\b|--runtime[= ]+\"?nvidia|nvidia-docker\b|--device[= ]+\"?nvidia\.com/gpu|/dev/nvidia|--nv\b|nvidia\.com/gpu"
    r"|driver:\s*nvidia|runtime:\s*nvidia|capabilities:\s*\[.*gpu|--privileged.*nvidia"
)


def request_line(case: Case, pattern: str) -> str:
    """The first line of what was tried, of the request or of the name of a printed excerpt, that matches; "" for none."""
    for line in (*case.request.splitlines(), *case.facts.evidence):
        if re.search(pattern, line, re.IGNORECASE):
            return line.strip()
    return ""


def started(case: Case) -> str:
    """The command by which a container was started; "" where it is not known."""
    return request_line(case, _RUN)


def contained(case: Case) -> bool:
    """Whether the report is from inside a container or about starting one."""
    if case.in_container or started(case) or case.hit(_ENGINE_SAYS) is not None:
        return True
    words = " ".join((case.request, *case.facts.evidence)).lower()
    return (
        re.search(
            r"\b(?:in|inside|within) (?:the |a )?(?:container|pod|docker)\b|\bcontainer\b|\bapptainer\b|\bsingularity\b", words
        )
        is not None
    )


def asks_for_gpu(case: Case) -> str:
    """The line by which a container was to get a GPU; "" where none is told."""
    for line in (*case.request.splitlines(), *(place for place, text in case.facts.evidence.items() if not _answers(text))):
        if re.search(_GPU_REQUEST, line, re.IGNORECASE):
            return line.strip()
    hit = case.hit(_GPU_REQUEST, "compose", "docker inspect", "yaml", "yml", "pod", "Dockerfile")
    return str(hit) if hit else ""


def _answers(text: str) -> bool:
    """Whether what was printed shows that this very command did reach the card."""
    return re.search(r"^\s*GPU \d+: |NVIDIA-SMI\s+\d.*driver version", text, re.IGNORECASE | re.MULTILINE) is not None


def engine(case: Case) -> str:
    """docker, podman, kubernetes, lxd or apptainer: the engine that is spoken of."""
    words = f"{case.machine.container} {case.request} {' '.join(case.facts.evidence)}".lower()
    for name, pattern in (
        ("kubernetes", r"kubernetes|\bk8s\b|\bk3s\b|kubectl|\bpod\b"),
        ("podman", r"podman|distrobox|toolbox|buildah"),
        ("lxd", r"\blx[cd]\b|incus|proxmox"),
        ("apptainer", r"apptainer|singularity"),
    ):
        if re.search(pattern, words):
            return name
    return "docker"


def _evidence(*lines: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in (str(line) if line else "" for line in lines) if text))


def _inside(case: Case) -> str:
    return f"machine.container: {case.machine.container}" if case.in_container else ""


def _request(line: str) -> str:
    return f"request: {line}" if line and not re.match(r"[\w .$/-]{1,60}: ", line) else line


def _hands_cards(case: Case) -> str:
    """A line that shows that another container, or the host, does reach the card."""
    hit = case.hit(
        r"^\s*GPU \d+: |NVIDIA-SMI\s+\d.*driver version|^\|\s+\d+\s+\S.*(?:nvidia|tesla|geforce|quadro|rtx|gtx)", "nvidia-smi"
    )
    return str(hit) if hit else ""


# ---- the toolkit -------------------------------------------------------------------------------------------------

_NO_DRIVER = (
    r"could not select (?:a )?device driver|unknown (?:or invalid )?runtime(?: name| specified)?:? ?\"?nvidia"
    r"|unresolvable CDI devices?\S*|failed to discover GPU vendor from CDI|stat nvidia\.com/gpu(?:=\w+)?: no such file"
    r"|(?:exec(?:ing)?|fork/exec|lookup|stat)\W+\S*nvidia-(?:container-runtime\S*|container-cli"
    r"|ctk)\S*:? .*(?:not found|no such file)"
    r"|\bnvidia-(?:ctk|container-cli|container-runtime\S*|docker)['\"]?:? (?:command )?(?:not found|no such file|not installed)"
    r"|(?:command not found|not recognized|没有找到|未找到命令).*nvidia-(?:ctk|container-cli|docker)"
    r"|nvidia-container-runtime-hook.*(?:not found|no such file)|runtime \"?nvidia\"? (?:is )?not (?:found|configured|registered)"
    r"|no runtime for \"nvidia\" is configured|handler \"nvidia\" not found|runtime nvidia not (?:found|configured)"
)
_OTHER_ENGINE = r"desktop-linux\b|docker desktop|\.docker/desktop/docker\.sock|\blinuxkit\b|docker-desktop\b"
_SNAP = (
    r"/snap/(?:bin/)?docker|/var/snap/docker|snap\.docker|\bsnap (?:install|list|services|info|start"
    r"|logs).{0,12}docker|docker.{0,60}canonical✓?|\bdocker\s+\d[\d.]*\s+\d+\s+\S+\s+canonical"
)
_ROOTLESS = r"rootless|bpf_prog_query\(BPF_CGROUP_DEVICE\)|/run/user/\d+/docker\.sock|failed to add device rules"
_ANCIENT = r"unknown flag: --gpus|flag provided but not defined: -?-gpus"
_CGROUPS = (
    r"cgroup subsystem devices not found|failed to get device cgroup|container error: failed to get device"
    r"|unsupported (?:config option|configuration).*(?:devices|runtime)"
)
_NO_LIBRARY = (
    r"(?:nvidia-container-cli|initialization error).*load library failed: libnvidia-ml"
    r"|load library failed: libnvidia-ml|load library failed: libcuda"
)


def _platform(case: Case) -> tuple[str, str]:
    """An engine that the toolkit does not serve as it is: desktop, snap, rootless, hyperv, mac, old; and the line that tells."""
    lines = [*case.request.splitlines(), *case.facts.evidence]
    for kind, pattern in (
        ("desktop", _OTHER_ENGINE),
        ("snap", _SNAP),
        ("rootless", _ROOTLESS),
        ("old", _ANCIENT),
        ("cgroups", _CGROUPS),
    ):
        hit = case.hit(pattern)
        found = str(hit) if hit else next((f"request: {line}" for line in lines if re.search(pattern, line, re.IGNORECASE)), "")
        if (
            not found
            and kind == "desktop"
            and re.search(pattern, f"{case.machine.container} {case.machine.kernel}", re.IGNORECASE)
        ):
            found = f"machine: {case.machine.container} {case.machine.kernel}".strip()
        if not found and kind in ("desktop", "snap"):
            found = next(
                (
                    f"machine.system_packages: {name} {version}"
                    for name, version in case.machine.system_packages.items()
                    if (kind == "desktop" and name == "docker-desktop")
                    or (kind == "snap" and "snap" in f"{name} {version}" and "docker" in name)
                ),
                "",
            )
        if found:
            return kind, found
    return "", ""


_INSTALL_ENGINE = "Docker: installing the engine: https://docs.docker.com/engine/install/"


def toolkit(case: Case) -> Iterator[Finding]:
    """A GPU was asked for and the engine cannot hand one out: it lacks the toolkit, or the toolkit does not serve it."""
    said = case.hit(_NO_DRIVER)
    library = case.hit(_NO_LIBRARY)
    kind, line = _platform(case)
    if kind == "desktop" and case.os is Os.WSL2:
        kind, line = "", ""  # there Docker Desktop brings the toolkit along
    if kind == "desktop" and case.os is Os.WINDOWS and not case.hit(r"hyper-?v"):
        kind = ""
    if said is None and kind == "desktop" and asks_for_gpu(case) and case.os in (Os.LINUX, None) and not case.torch.available:
        said = case.hit(
            r"nvidia-smi.*not found|no nvidia driver|driver was not detected|no devices? (?:were )?found"
            r"|^\s*false\s*$|libcuda\.so\.1"
        )
    host_mac = case.os is Os.MACOS and said is not None
    if (
        said is None
        and library is None
        and kind not in ("old", "cgroups")
        and not (kind == "rootless" and "bpf_prog" in line.lower() + "")
        and not (kind == "rootless" and re.search(r"failed to add device rules|operation not permitted", line, re.IGNORECASE))
    ):
        return
    hyperv = case.os is Os.WINDOWS and said is not None
    if kind in ("desktop", "snap", "rootless", "old", "cgroups") or host_mac or hyperv or library:
        if library and not said and not kind and case.os is Os.WSL2:
            return
        yield _unsupported(case, kind or ("mac" if host_mac else "hyperv" if hyperv else ""), said or library, line)
        if kind not in ("snap", "rootless") and not (library and not kind):
            return
    if said is not None:
        yield _missing(case, said)


def _unsupported(case: Case, kind: str, said: Hit | None, line: str) -> Finding:
    what, remedy, lines = {
        "desktop": (
            "Docker Desktop runs containers in a virtual machine, which does not have the machine's GPU on Linux",
            "Use Docker Engine itself with the NVIDIA Container Toolkit: leave Docker Desktop and switch to the "
            "engine's context.",
            ("docker context use default", "sudo nvidia-ctk runtime configure --runtime=docker", "sudo systemctl restart docker"),
        ),
        "snap": (
            "this Docker is a snap, whose confinement keeps the toolkit and the driver's libraries from it",
            "Remove the snap, install Docker Engine from Docker's own packages, then the NVIDIA Container Toolkit.",
            ("sudo snap remove docker", "sudo nvidia-ctk runtime configure --runtime=docker", "sudo systemctl restart docker"),
        ),
        "rootless": (
            "this Docker runs without root and may not set the device rules that the toolkit wants to set",
            "Tell the toolkit to leave control groups alone (no-cgroups = true), or hand devices out through CDI.",
            ("sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place", "systemctl --user restart docker"),
        ),
        "old": (
            "this Docker is older than its --gpus option (19.03)",
            "Update Docker Engine, or start with the old toolkit's own runtime (--runtime=nvidia).",
            (),
        ),
        "cgroups": (
            "this release of the toolkit does not know the control groups of this system",
            "Update the NVIDIA Container Toolkit and libnvidia-container, or hand devices out through CDI.",
            tuple(commands.install(case, "nvidia-container-toolkit")),
        ),
        "mac": (
            "Docker on macOS runs a virtual machine without any GPU of NVIDIA",
            "Run this image on a Linux machine with an NVIDIA card; on the Mac itself use MPS or MLX without a container.",
            (),
        ),
        "hyperv": (
            "Docker on Windows hands GPUs out only where it runs on WSL2; this one runs on Hyper-V",
            "Switch Docker Desktop to its WSL2 engine (Settings, General) and update WSL and the NVIDIA driver of Windows.",
            ("wsl --update",),
        ),
        "": (
            "the engine that runs the container does not see the driver's libraries, which lie on this machine",
            "Leave Docker Desktop or the snap of Docker, if that is what runs, and use Docker Engine of Docker's own packages; "
            "where nvidia-smi fails on the host too, install the driver there first.",
            ("docker context ls", "snap list docker"),
        ),
    }[kind]
    host = _hands_cards(case)
    return Finding(
        cause="container-runtime-unsupported",
        message=what,
        evidence=_evidence(said, line, host),
        remedy=remedy,
        commands=lines,
        sources=(_INSTALL_ENGINE, _TOOLKIT),
        likelihood=93 if kind and said else 90 if kind else 74 if host else 60,
    )


def _missing(case: Case, said: Hit) -> Finding:
    cdi = re.search(r"CDI|nvidia\.com/gpu", said.line) is not None
    packages = {name for name in case.machine.system_packages if re.match(r"nvidia-container-toolkit|nvidia-docker2", name)}
    there = (
        bool(packages)
        or case.hit(r"^ii\s+nvidia-container-toolkit|nvidia-container-toolkit-\d|NVIDIA Container Toolkit CLI version")
        is not None
    )
    if cdi:
        lines = ("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml", "nvidia-ctk cdi list")
    else:
        lines = ("sudo nvidia-ctk runtime configure --runtime=docker", "sudo systemctl restart docker")
    if engine(case) == "kubernetes":
        lines = ("sudo nvidia-ctk runtime configure --runtime=containerd", "sudo systemctl restart containerd")
    install = () if there else tuple(commands.install(case, "nvidia-container-toolkit"))
    message = (
        "the NVIDIA Container Toolkit is there and the engine does not know of it"
        if there
        else "a GPU was asked for and the container engine has no NVIDIA Container Toolkit that could hand it out"
    )
    return Finding(
        cause="container-toolkit-missing",
        message=message,
        evidence=_evidence(
            said,
            _request(asks_for_gpu(case)),
            case.hit(r"(?:upgraded?|updated?|removed?|purged?|erased?):? .*(?:docker-ce|docker\.io|nvidia-(?:container|docker))"),
            *(f"machine.system_packages: {name}" for name in sorted(packages)[:2]),
        ),
        remedy=(
            ("Register" if there else "Install nvidia-container-toolkit (from NVIDIA's package repository), register")
            + (
                " it with the engine and restart the engine; an update of Docker can have taken either away."
                if not cdi
                else " it and write the CDI specification anew, after each update of the driver too."
            )
        ),
        commands=install + lines,
        sources=(_CDI if cdi else _TOOLKIT,),
        likelihood=91,
    )


def cdi_stale(case: Case) -> Iterator[Finding]:
    """The CDI specification names files of a driver that has gone."""
    said = case.hit(
        r"(?:cannot stat|error stat\S*ing|error mounting|failed to mount|stat|lstat).{0,80}?(?:lib\w*nvidia|libcuda|libnv"
        r"|nvidia)[\w.-]*\.so\.(\d+\.\d+(?:\.\d+)*).*no such file"
    )
    if said is None:
        return
    yield Finding(
        cause="container-cdi-stale",
        message=f"the CDI specification names files of a driver that has gone (one of release {said[1]})",
        evidence=_evidence(said, _hands_cards(case)),
        remedy="Write the CDI specification anew after each update of the driver.",
        commands=("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",),
        sources=(_CDI,),
        likelihood=91,
    )


def driver_files_in_image(case: Case) -> Iterator[Finding]:
    """The toolkit finds files of a driver in the image where it wants to mount those of the host."""
    said = case.hit(r"(?:mount error|file creation failed).*(?:libnvidia|libcuda|nvidia-smi|nvidia)\S*:? file exists")
    if said is None:
        return
    yield Finding(
        cause="nvidia-driver-lib-in-container",
        message="the image holds files of an NVIDIA driver, where the toolkit wants to mount those of the host",
        evidence=_evidence(said),
        remedy=(
            "Take the driver's packages (libnvidia-*, nvidia-utils, cuda-drivers) out of the image, build it "
            "without a GPU in reach, and start a new container."
        ),
        commands=("rm -f /usr/lib/x86_64-linux-gnu/libcuda.so* /usr/lib/x86_64-linux-gnu/libnvidia-*.so*",),
        sources=("NVIDIA/nvidia-container-toolkit issue 289: https://github.com/NVIDIA/nvidia-container-toolkit/issues/289",),
        likelihood=91,
    )


# ---- no request --------------------------------------------------------------------------------------------------

_BANNER = (
    r"nvidia driver was not detected|GPU functionality will not be available"
    r"|use (?:the )?(?:'nvidia-docker run'|NVIDIA Container Toolkit) to start this container"
)
_NO_NVIDIA = (
    r"nvidia-smi['\"]?:? (?:command )?not found|nvidia-smi: not found|\"nvidia-smi\": executable file not found"
    r"|nvidia-smi.*no such file"
    r"|found no nvidia driver|no nvidia driver|libcuda\.so(?:\.1)?['\"]?:? cannot open shared"
    r"|could not (?:find|load) (?:dynamic library )?'?libcuda"
    r"|could not find cuda drivers|failed to find libcuda|cannot find libcuda"
    r"|libnvidia-ml\.so(?:\.1)?['\"]?:? (?:cannot open|not found)|NVML Shared Library Not Found"
    r"|couldn'?t find libnvidia-ml"
    r"|cannot access '?/dev/nvidia\S*|ls: /dev/nvidia\S* no such|/dev/nvidia\S*:? no such file"
    r"|unable to (?:detect|find) (?:any )?(?:nvidia )?gpu|no nvidia gpu detected|no gpu detected"
    r"|failed to detect nvidia|did not find (?:a )?gpu"
)
_NO_DEVICE = (
    r"no cuda gpus are available|no cuda-capable device|cuda_error_no_device|cudaErrorNoDevice"
    r"|cuda error:? (?:100|38)\b|cudaGetDeviceCount\S*.*\b(?:100|38|35)\b"
    r"|failed call to cuinit|torch is not able to use gpu|torch not compiled with|is_available\(\)?\W*false"
    r"|^\s*false\s*$|insufficient nvidia\.com/gpu|device_count\D{0,4}0\b"
    r"|only 0 devices available|falling back to cpu|no (?:compatible )?gpus? (?:was |were )?(?:found|detected|available)"
)
_CUDA_IMAGE = r"nvidia/cuda|\bcuda\d|cu1\d\d|-gpu\b|:gpu\b|pytorch/pytorch|nvcr\.io|tritonserver|vllm/vllm-openai|cudnn"


def no_gpu_flag(case: Case) -> Iterator[Finding]:
    """The container was started without a GPU."""
    if not contained(case) or case.torch.available or case.os in (Os.WINDOWS, Os.MACOS) or case.torch.flavour in ("rocm", "xpu"):
        return
    if {card.vendor for card in case.gpus if card.vendor} - {"nvidia"} and not case.cards("nvidia"):
        return
    banner, none, failed = case.hit(_BANNER), case.hit(_NO_NVIDIA), case.hit(_NO_DEVICE)
    asked, run = asks_for_gpu(case), started(case)
    podman_gpus = bool(re.search(r"podman.*--gpus", asked)) and none is not None
    build = request_line(case, r"\b(?:docker|podman|buildx)\b.*\bbuild\b")
    if (
        case.hit(_NO_DRIVER)
        or case.hit(_NO_LIBRARY)
        or (case.hit(r"/dev/kfd|\bhip\b|rocminfo|amdgpu") and not case.cards("nvidia"))
    ):
        return
    void = case.facts.env.get("NVIDIA_VISIBLE_DEVICES", case.variable("NVIDIA_VISIBLE_DEVICES") or "all").strip().lower()
    hidden = void in ("void", "none", "") and "NVIDIA_VISIBLE_DEVICES" in {
        *case.facts.env,
        *(" ".join(case.facts.evidence)).replace("$", " ").split(),
    }
    bare = (
        case.in_container
        and case.machine.devices is not None
        and not case.has_device(r"^/dev/(?:nvidia|dxg|nvhost|nvmap|nvgpu|kfd|davinci|dri/render)")
    )
    if case.has_device(r"^/dev/nvidia(?:\d|ctl)") or (case.has_device(r"^/dev/(?:nvhost|nvmap)") and not banner):
        return
    cuda = case.torch.flavour == "cuda" or bool(case.cards("nvidia")) or bool(re.search(_CUDA_IMAGE, case.request, re.IGNORECASE))
    unasked = bool(run) and not asked and re.search(r"\b(?:run|create|up|compose)\b", run) is not None
    signs = banner or none or failed or (case.torch.available is False and cuda) or hidden
    # A request can have been another container's: then the nodes tell.
    refused = asked and not podman_gpus and not hidden and not build and not (bare and banner)
    if not signs or refused:
        return
    if not (
        banner
        or (none and case.in_container)
        or unasked
        or bare
        or hidden
        or podman_gpus
        or build
        or (none and _inside_words(case))
    ):
        return
    if none is None and banner is None and not cuda and not (hidden and failed):
        return
    if unasked and banner is None and none is None and not cuda:
        return
    likelihood = (
        91
        if banner or hidden
        else 90
        if (none and unasked) or podman_gpus
        else 86
        if unasked or (none and bare)
        else 82
        if none
        else 66
    )
    card = next(iter(case.cards("nvidia")), None)
    remedy, lines = _how_to_ask(case, build=bool(build and not unasked))
    yield Finding(
        cause="container-no-gpu-flag",
        message="the container was started without a GPU"
        + (f": {card_name(card)} of the host is not in it" if card else ": no NVIDIA device is in it"),
        evidence=_evidence(
            banner,
            none,
            failed,
            _request(run or build),
            f"NVIDIA_VISIBLE_DEVICES: {void or 'empty'}" if hidden else "",
            f"machine.devices: none of NVIDIA's ({_inside(case)})" if bare else "",
            _hands_cards(case),
            "torch.available: false" if case.torch.available is False else "",
        ),
        remedy=remedy,
        commands=lines,
        sources=(_GPUS, _TOOLKIT),
        likelihood=likelihood,
    )


def _inside_words(case: Case) -> bool:
    return any(re.search(r"container|docker|\bpod\b|podman|exec", place, re.IGNORECASE) for place in case.facts.evidence)


def _how_to_ask(case: Case, *, build: bool) -> tuple[str, tuple[str, ...]]:
    if build:
        return (
            "A build has no GPU: move what needs one from the Dockerfile to the start of the container, and "
            "start it with a GPU request.",
            ("docker run --rm --gpus all IMAGE",),
        )
    by_engine = {
        "kubernetes": ("Ask for the GPU in the pod's limits (nvidia.com/gpu: 1); the device plugin must run on the node.", ()),
        "podman": (
            "Create the container anew and hand it the GPU through CDI; podman passes over --gpus where no CDI "
            "specification is there.",
            (
                "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
                "podman run --rm --device nvidia.com/gpu=all IMAGE nvidia-smi",
            ),
        ),
        "lxd": (
            "Hand the GPU to the container and switch on its NVIDIA runtime, then restart it.",
            ("lxc config device add NAME gpu gpu", "lxc config set NAME nvidia.runtime=true"),
        ),
        "apptainer": (
            "Start it with --nv, which binds the driver's libraries and nodes.",
            ("apptainer exec --nv IMAGE nvidia-smi",),
        ),
    }
    if engine(case) in by_engine:
        return by_engine[engine(case)]
    compose = re.search(r"compose", f"{case.request} {' '.join(case.facts.evidence)}", re.IGNORECASE)
    return (
        "Create the container anew with a GPU request"
        + (
            " in the compose file (deploy.resources.reservations.devices with capabilities: [gpu])."
            if compose
            else ": --gpus all."
        ),
        ("docker run --rm --gpus all IMAGE nvidia-smi",),
    )


# ---- taken away --------------------------------------------------------------------------------------------------

_NVML_UNKNOWN = (
    r"(?:failed to initialize nvml|nvml\w*(?:error)?(?:_unknown)?|nvidia-smi)\W{1,3}unknown error"
    r"|NVML_ERROR_UNKNOWN|NVMLError_Unknown|nvml error: unknown"
    r"|could not (?:init|initialize) nvml.*unknown|nvmlInit\S*.*unknown error"
)
_RELOAD = (
    r"daemon-reload|systemctl (?:reload|restart|enable|set-property)|unattended-upgrade"
    r"|systemd\[1\]: reloading|reloading\.\.\.$|Reloading requested"
)


def cgroup_device_loss(case: Case) -> Iterator[Finding]:
    """The container may no longer open the devices that it was given."""
    said = case.hit(_NVML_UNKNOWN)
    denied = [path for path in case.machine.devices_denied or () if path.startswith("/dev/nvidia")] if case.in_container else []
    refused = case.hit(r"/dev/nvidia\S*.*(?:operation not permitted|EPERM)") if contained(case) else None
    rules = case.hit(r"^\s*c 195:\S+\s+m\s*$")
    if (
        (said is None and not denied and refused is None and rules is None)
        or case.torch.available
        or case.os in (Os.WINDOWS, Os.WSL2, Os.MACOS)
    ):
        return
    reload = case.hit(_RELOAD) or request_line(case, _RELOAD)
    later = case.hit(
        r"after (?:a while|some time|a few|several|\d+|random)|suddenly|loses? (?:the )?(?:access|gpu)"
        r"|some (?:hours|days) later|worked (?:before|at first|until)"
    )
    inside = contained(case)
    on_host = case.machine.container == "" and not inside
    certain = 92 if said and (reload or inside) else 86
    nodes = [path for path in case.machine.devices or () if path.startswith("/dev/nvidia")]
    yield Finding(
        cause="container-cgroup-device-loss",
        message=(
            "the container has NVIDIA's device nodes and may no longer open them: a reload of systemd has "
            "set its device rules anew"
        ),
        evidence=_evidence(
            said,
            refused,
            rules,
            reload if isinstance(reload, Hit) else _request(reload),
            later,
            f"machine.devices: {', '.join(nodes[:3])}" if nodes and inside else "",
            f"machine.devices_denied: {', '.join(denied[:3])}" if denied else "",
            _inside(case),
            _hands_cards(case),
        ),
        remedy=(
            "Start the container anew: it gets its devices back. To keep it from happening, hand the devices out through CDI, or "
            "name each of them (--device /dev/nvidia0 ...), make the links in /dev/char "
            "(nvidia-ctk system create-dev-char-symlinks), or let "
            "Docker use the cgroupfs driver instead of systemd's."
        ),
        commands=("docker restart NAME", "sudo nvidia-ctk system create-dev-char-symlinks --create-all"),
        sources=(_NOTICE,),
        likelihood=58 if on_host and not reload else certain,
    )


# ---- shared memory -----------------------------------------------------------------------------------------------

_SHM_SAID = (
    r"insufficient shared memory|out of shared memory|raise your shared memory limit|unexpected bus error encountered in worker"
    r"|/dev/shm\S*.*(?:no space left|too small|only has|only \d+|failed|not enough|cannot allocate|insufficient)"
    r"|no space left on device.*(?:/dev/shm|shm|shared memory)"
    r"|(?:error while creating|while attaching to|failed to (?:create|allocate|open|mmap)"
    r"|unable to (?:create|allocate|open)) (?:a )?shared memory(?: segment)?|posix_fallocate failed"
    r"|unable to write to file </torch_|unable to mmap \d+ bytes from file|unable to allocate shared memory\(?shm"
    r"|shm_open.*(?:no space|failed)|ftruncate.*shm"
    r"|object store is using /tmp instead of /dev/shm|shared memory (?:is )?(?:exhausted|insufficient|too small"
    r"|full)|no space left.*torch_\d"
    r"|共享内存(?:不足|不够)|nccl.*shm.*no space|NCCL WARN.*shared memory"
)
_BUS = r"bus error|SIGBUS|signal 7\b|exit(?:ed)?(?: with)? (?:code|status):? (?:135|-7)\b|bus-?fehler|总线错误"
_WORKERS = r"dataloader|num_workers|nccl|multiprocessing|DDP|distributed|torchrun|worker"
_UNITS = {"": 1024, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def _shm(case: Case) -> tuple[int | None, str]:
    """How large /dev/shm is, and the line that tells."""
    if case.machine.shm_bytes is not None:
        return case.machine.shm_bytes, f"machine.shm_bytes: {case.machine.shm_bytes}"
    df = case.hit(r"^\s*(?:shm|tmpfs|none|\S+)\s+(\d+(?:[.,]\d+)?)([BKMGT]?)i?B?\s+\S+\s+\S+\s+\d+%\s+/dev/shm\b")
    if df:
        return int(float(df[1].replace(",", ".")) * _UNITS[df[2].upper()]), str(df)
    asked = re.search(r"--shm-size[= ]+\"?(\d+)([bkmgBKMG]?)", case.request) or re.search(
        r"\"?ShmSize\"?:\s*(\d+)()", case.printed("inspect")
    )
    if asked:
        unit = (asked[2] or "B").upper()
        return int(asked[1]) * _UNITS[unit], f"request: {asked[0]}"
    told = case.hit(r"(?:/dev/shm) has only (\d+) bytes")
    return (int(told[1]), str(told)) if told else (None, "")


def shm_small(case: Case) -> Iterator[Finding]:
    """There is too little shared memory for workers that hand tensors to each other."""
    said, bus = case.hit(_SHM_SAID), case.hit(_BUS)
    size, line = _shm(case)
    borders = known()["shm"]
    small = size is not None and size <= borders["small_bytes"]
    ample = size is not None and size >= 8 * borders["small_bytes"]
    workers = case.hit(_WORKERS) or request_line(case, _WORKERS)
    killed = case.hit(r"dataloader worker.*(?:killed|exited unexpectedly)")
    if said is None and not (bus and (small or workers or contained(case))) and not (killed and small):
        return
    if case.os in (Os.WINDOWS, Os.MACOS) or (ample and said is None):
        return
    full = case.hit(r"\s(?:9\d|100)%\s+/dev/shm")
    has = f"there is {_size(size)} at /dev/shm" if size is not None else "there is too little room at /dev/shm"
    host = bool(re.search(r"--ipc[= ]+\"?host", case.request))
    likelihood = 92 if said and (small or full) else 90 if said else 88 if small else 62
    if ample and not full:
        likelihood = 52
    by_engine: dict[str, tuple[str, tuple[str, ...]]] = {
        "kubernetes": ("Mount an emptyDir of medium Memory at /dev/shm with the size that the workers need.", ()),
        "lxd": ("Give the container a larger tmpfs at /dev/shm.", ()),
    }
    remedy, lines = by_engine.get(engine(case)) or (
        "Start the container with more shared memory (--shm-size=8g, shm_size in a compose file) or with the "
        "host's own (--ipc=host); "
        "fewer workers need less.",
        ("docker run --gpus all --shm-size=8g IMAGE", "df -h /dev/shm"),
    )
    if not contained(case) and (host or case.machine.container == ""):
        remedy, lines = "Give /dev/shm more room, or use fewer workers.", ("sudo mount -o remount,size=8G /dev/shm",)
    yield Finding(
        cause="container-shm-small",
        message=f"{has}, through which worker processes hand each other their data",
        evidence=_evidence(said, bus, line, full, killed, _inside(case)),
        remedy=remedy,
        commands=lines,
        sources=(borders["source"],),
        likelihood=likelihood,
    )


def _size(size: int) -> str:
    return f"{size // 1024**2} MiB" if size < 1024**3 else f"{size / 1024**3:.3g} GiB"


# ---- AMD and Intel in containers ---------------------------------------------------------------------------------

_NO_KFD = (
    r"/dev/kfd\S*(?: read-write)?[\"':]*[: ].*(?:no such file|not found|does not exist|no such device)"
    r"|(?:no such file|cannot (?:access|open|stat)|not found).*/dev/kfd"
    r"|error gathering device information.*/dev/(?:kfd|dri)|stat /dev/(?:kfd|dri)\S*: no such|kfd: no such file"
    r"|ROCk module is NOT loaded|/dev/kfd (?:is )?(?:missing|not present|not there)"
    r"|/dev/dri\S*[\"']?:? .*no such file|cannot access '?/dev/dri"
)
_NO_HIP = (
    r"no ROCm-capable device|hipErrorNoDevice|no HIP GPUs are available|no cuda gpus are available"
    r"|HIP error: 100\b|hsa_init|HSA_STATUS_ERROR_OUT_OF_RESOURCES"
    r"|no amd gpu|no (?:compatible )?(?:amd)?gpus? (?:devices? )?(?:found|detected)|is_available\(\)?\W*false"
    r"|^\s*false\s*$|amdgpu (?:driver|module) not (?:found|loaded)|unable to initialize (?:kfd|rocr)"
    r"|failed to get device count|No agents? found|no supported (?:amd )?gpu"
)
_DENIED_WORDS = (
    r"permission denied|operation not permitted|access denied|EACCES|zugriff verweigert|权限不够"
    r"|permiso denegado|permission non accord|отказано"
)


def _is_amd(case: Case) -> bool:
    if case.cards("amd") or case.torch.flavour == "rocm":
        return True
    return not case.cards("nvidia") and (
        case.hit(r"\brocm|/dev/kfd|\bhip\b|amdgpu|\bgfx\d|radeon|\binstinct\b") is not None
        or re.search(r"rocm|/dev/kfd|radeon", f"{case.request} {' '.join(case.facts.evidence)}", re.IGNORECASE) is not None
    )


def rocm_device_missing(case: Case) -> Iterator[Finding]:
    """A container without the nodes through which ROCm reaches the card."""
    if not _is_amd(case) or case.torch.available or not contained(case) or case.torch.flavour in ("cuda", "cpu"):
        return
    said = case.hit(_NO_KFD)
    failed = case.hit(_NO_HIP)
    run = started(case)
    passes_kfd = re.search(r"/dev/kfd|--privileged|amd\.com/gpu", f"{case.request} {run}") is not None
    passes_dri = re.search(r"/dev/dri|--privileged|amd\.com/gpu", f"{case.request} {run}") is not None
    no_kfd = case.has_device(r"^/dev/kfd$") is False
    no_dri = case.has_device(r"^/dev/dri/render") is False
    by_facts = (
        case.in_container and (no_kfd or no_dri) and (failed is not None or case.torch.available is False or said is not None)
    )
    by_request = (
        bool(run)
        and re.search(r"\b(?:run|create|up|compose)\b", run) is not None
        and not (passes_kfd and passes_dri)
        and (failed is not None or case.torch.available is False)
    )
    if said is None and not by_facts and not by_request:
        return
    if said is not None and re.search(_DENIED_WORDS, said.line, re.IGNORECASE):
        return
    # What is denied is there.
    if said is None and case.hit(rf"/dev/kfd.*(?:{_DENIED_WORDS})"):
        return
    from_engine = said is not None and "gathering device information" in said.line
    missing = (
        " and ".join(
            name for name, gone in (("/dev/kfd", no_kfd or not passes_kfd), ("/dev/dri", no_dri or not passes_dri)) if gone
        )
        or "/dev/kfd"
    )
    if said is not None and not by_facts and not by_request:
        missing = "/dev/dri" if "/dev/dri" in said.line and "/dev/kfd" not in said.line else "/dev/kfd"
    yield Finding(
        cause="container-rocm-device-missing",
        message=(
            f"the host has no {missing} that could be handed to the container"
            if from_engine
            else f"the container was not given {missing}, through which ROCm reaches the card"
        ),
        evidence=_evidence(
            said,
            failed,
            _request(run),
            f"machine.devices: no {missing} ({_inside(case)})" if by_facts else "",
            "torch.available: false" if case.torch.available is False else "",
        ),
        remedy=(
            "Load the amdgpu module on the host first, so that /dev/kfd is there, then start the container with both nodes."
            if from_engine
            else (
                "Create the container anew with --device=/dev/kfd and --device=/dev/dri, and with the numbers "
                "of the groups that own them."
            )
        ),
        commands=(
            *(("sudo modprobe amdgpu", "ls -l /dev/kfd /dev/dri") if from_engine else ()),
            "docker run --device=/dev/kfd --device=/dev/dri --group-add $(stat -c %g /dev/kfd) --group-add "
            "$(stat -c %g /dev/dri/renderD128) IMAGE",
        ),
        sources=(_ROCM_DOCKER,),
        likelihood=76
        if from_engine
        else 91
        if said and (by_facts or by_request or case.in_container)
        else 88
        if said
        else 84
        if by_facts
        else 80,
    )


_IN_GROUP_ONLY = (
    r"is not (?:a )?member of [\"']?(?P<group>[\w-]+)[\"']? group|unable to find group (?P<named>[\w-]+): no matching entries"
    r"|groups?: cannot find name for group ID (?P<number>\d+)|failed to get user name to check for"
)


def gid_mismatch(case: Case) -> Iterator[Finding]:
    """The node is in the container, and the group that may open it has another number there than on the host."""
    if not contained(case) or case.torch.available or case.os in (Os.WINDOWS, Os.MACOS):
        return
    amd, intel = _is_amd(case), bool(case.cards("intel")) or case.torch.flavour == "xpu"
    node = r"/dev/(?:kfd|dri/\w+|accel/\w+)"
    denied = case.hit(rf"{node}.*(?:{_DENIED_WORDS})|(?:{_DENIED_WORDS}).*{node}")
    group = case.hit(_IN_GROUP_ONLY) if amd or intel or denied else None
    refused = [path for path in case.machine.devices_denied or () if re.match(node, path)] if case.in_container else []
    unnamed = case.hit(r"unable to find group (?:render|video): no matching entries")
    owner = case.hit(r"^[cl]rw\S+\s+\d+\s+(?:root|nobody|0|65534)\s+(?P<owner>[\w-]+)\s+.*(?:/dev/kfd|\bkfd|renderD\d+|/dev/dri)")
    numbers = _numbers(case)
    differ = numbers is not None and numbers[0] not in numbers[1]
    odd = owner is not None and owner["owner"] not in ("render", "video", "root") and not (numbers and not differ)
    failed = case.hit(_NO_HIP) or case.torch.available is False
    if (
        denied is None
        and not refused
        and unnamed is None
        and not (group and re.search("nogroup|member of", group.line))
        and not ((odd or differ) and failed)
    ):
        return
    if (
        group is not None
        and re.search(r"no such file", case.printed("rocminfo", "error"), re.IGNORECASE)
        and denied is None
        and not refused
    ):
        return
    rootless = engine(case) == "podman" or case.hit(r"nogroup|nobody|rootless") is not None
    lines = (
        ("podman run --group-add keep-groups --device=/dev/kfd --device=/dev/dri IMAGE",)
        if rootless
        else (
            "stat -c '%g %n' /dev/kfd /dev/dri/renderD*",
            "docker run --device=/dev/kfd --device=/dev/dri --group-add $(stat -c %g /dev/kfd) --group-add "
            "$(stat -c %g /dev/dri/renderD128) IMAGE",
        )
    )
    if intel and not amd:
        lines = ("docker run --device=/dev/dri --group-add $(stat -c %g /dev/dri/renderD128) IMAGE",)
    told = (
        f": it belongs to group {numbers[0]}, the process has {', '.join(sorted(numbers[1], key=int)[:8])}"
        if differ and numbers
        else ""
    )
    yield Finding(
        cause="container-gid-mismatch",
        message="the node is in the container, and the process is in no group that may open it"
        + (told or ": groups go by number, and the image's differ from the host's"),
        evidence=_evidence(
            denied,
            unnamed,
            group,
            owner if odd or differ else "",
            f"machine.devices_denied: {', '.join(refused[:3])}" if refused else "",
            f"machine.user_groups: {', '.join(case.machine.user_groups)}" if refused and case.machine.user_groups else "",
            _request(started(case)),
            _inside(case),
        ),
        remedy=(
            "Keep the host's groups in the container (--group-add keep-groups of podman with crun)."
            if rootless
            else (
                "Start the container with the numbers of the groups that own the nodes on the host "
                "(--group-add with a number); names are looked up in the image."
            )
        ),
        commands=lines,
        sources=(_ROCM_DOCKER, "ROCm/ROCm-docker issue 116: https://github.com/ROCm/ROCm-docker/issues/116"),
        likelihood=92 if differ or unnamed else 90 if denied or group else 86,
    )


def _numbers(case: Case) -> tuple[str, set[str]] | None:
    """The number of the group of the node, and those of the process in the container."""
    node = case.hit(r"^[cl]rw\S+\s+\d+\s+\d+\s+(\d+)\s.*(?:kfd|renderD|/dev/dri)", "-n", "ls", "container", "docker") or case.hit(
        r"^\s*(\d+)\s+/dev/(?:kfd|dri/renderD\d+)", "stat"
    )
    process = case.hit(r"\bgroups=([\d(),\w -]+)")
    if not node or not process:
        return None
    return node[1], set(re.findall(r"\b(\d+)(?=\(|,|$)", process[1]))


# ---- Jetson ------------------------------------------------------------------------------------------------------

_TEGRA = r"\btegra|jetson|\bl4t\b|jetpack|nv_tegra_release|libnvrm|nvhost|nvmap|\bNvRm\w+"
_JETSON_FAILS = (
    r"cudaGetDeviceCount\S*(?: returned|\(\))?.*\b(?:3|35|36|100|801|999)\b|initialization error|NvRmMem\w*"
    r"|nvrm_gpu|NvRmGpu\w*|libnvrm\S*|nvmap|lib(?:curand|cublas|cudnn|cufft|nvinfer|cudart)\S*: cannot open shared"
    r"|driver version is insufficient|cuda (?:is )?not available|unsupported display driver|undefined symbol"
    r"|illegal instruction|version mismatch|no cuda-capable|unexpected error from cudaGetDeviceCount"
    r"|is_available\(\)?\W*false|^\s*false\s*$|CUDA error|libcuda\S*.*(?:not found|no such|undefined)|GLIBC_\d"
    r"|cuda driver library|file format not recognized|too short"
)


def _l4t_of_image(case: Case) -> tuple[str, str]:
    """The L4T release that an image was made for, and the line that tells."""
    for line in (*case.request.splitlines(), *case.facts.evidence, *(text for text in case.facts.evidence.values())):
        found = re.search(
            r"(?:l4t[\w.-]*|jetson[\w.-]*|dustynv/[\w.-]+|tegra[\w.-]*"
            r"|deepstream[\w.-]*):[\w.-]*?\br?(3[2-9]\.\d+(?:\.\d+)?)\b|:r(3[2-9]\.\d+(?:\.\d+)?)\b"
            r"|L4T_VERSION\s*[=:]\s*\"?r?(3[2-9]\.\d+)",
            line,
            re.IGNORECASE,
        )
        if found:
            return next(group for group in found.groups() if group), line.splitlines()[0][:300] if "\n" not in found[
                0
            ] else found[0]
    jetpack = re.search(
        r"(?:l4t-jetpack|jetpack|jp)[:_-]?(?:image )?v?([4-7])(?:\.\d)?\S* (?:image|container)", case.request, re.IGNORECASE
    )
    return (f"JetPack {jetpack[1]}", case.request.splitlines()[0]) if jetpack else ("", "")


def _l4t_of_host(case: Case) -> tuple[str, str]:
    """The L4T release of the machine, and the line that tells."""
    told = case.hit(r"#?\s*R(3[2-9]) ?\(release\),?\s*REVISION:\s*([\d.]+)")
    if told:
        return f"{told[1]}.{told[2]}", str(told)
    for name in ("nvidia-l4t-core", "nvidia-l4t-cuda", "nvidia-l4t-kernel"):
        if version := case.machine.system_packages.get(name):
            return version.split("-")[0], f"machine.system_packages: {name} {version}"
    told = case.hit(r"nvidia-l4t-core\W+(3[2-9]\.\d+(?:\.\d+)?)|\bL4T[ :=]+R?(3[2-9]\.\d+(?:\.\d+)?)\b")
    if told:
        return told[1] or told[2], str(told)
    told = case.hit(
        r"jetpack\W{0,4}(?:version\W{0,3})?([4-7]\.\d+(?:\.\d+)?)", "jetpack", "jtop", "jetson", "host", "apt", "cat", "dpkg"
    )
    if told:
        return f"JetPack {told[1]}", str(told)
    found = re.search(
        r"jetpack (?:version )?([4-7](?:\.\d+)*)|\bL4T[ :]*R?(3[2-9]\.\d+(?:\.\d+)?)|\bR(3[2-9]\.\d+)",
        f"{case.machine.os_release}",
        re.IGNORECASE,
    )
    if found:
        return (f"JetPack {found[1]}" if found[1] else found[2] or found[3]), f"machine.os_release: {case.machine.os_release}"
    # Each line of L4T has a kernel of its own.
    kernel = re.match(r"(\d+\.\d+)\.\d+\S*tegra", case.machine.kernel)
    line = {"4.9": "32", "5.10": "35", "5.15": "36", "6.8": "38"}.get(kernel[1]) if kernel else None
    return (line, f"machine.kernel: {case.machine.kernel}") if line else ("", "")


def _line(release: str) -> frozenset[str]:
    """The lines of L4T (35, 36) that a release, or a JetPack, belongs to."""
    if release.startswith("JetPack "):
        return frozenset(known()["jetson"]["jetpack"].get(release.split()[1].split(".")[0], ()))
    return frozenset({release.split(".")[0]}) if release else frozenset()


def jetson_l4t_mismatch(case: Case) -> Iterator[Finding]:
    """A container for another L4T than the Jetson's own."""
    words = f"{case.machine.kernel} {case.machine.os_release} {case.request} {' '.join(card.name for card in case.gpus)}"
    tegra = (
        case.hit(_TEGRA)
        or re.search(_TEGRA, words, re.IGNORECASE)
        or any("nvhost" in path or "nvmap" in path for path in case.machine.devices or ())
    )
    if not tegra or case.torch.available or not (contained(case) or case.hit(r"\bl4t\b|l4t-")):
        return
    image, image_line = _l4t_of_image(case)
    host, host_line = _l4t_of_host(case)
    failed = case.hit(_JETSON_FAILS)
    apart = bool(image and host) and not (_line(image) & _line(host))
    # On the older line libraries came from the host, so that the minor release had to be the same.
    minor = bool(image and host) and not apart and "32" in _line(host) and image.split(".")[:2] != host.split(".")[:2]
    if not apart and not minor:
        plain = case.hit(r"cudaGetDeviceCount\S*(?: returned|\(\))?.*\b3\b|NvRmMemInitNvmap|libnvrm_gpu|nvrm_gpu")
        if failed is None or (image and host) or not (image or plain):
            return
    yield Finding(
        cause="jetson-l4t-mismatch",
        message=(
            f"the image is for L4T {image}, and the machine runs {'L4T ' if not host.startswith('J') else ''}{host}".replace(
                "L4T JetPack", "JetPack"
            )
            if apart or minor
            else "the image is for another L4T than the Jetson runs, whose driver it shares"
        ),
        evidence=_evidence(
            image_line and _request(image_line),
            host_line,
            failed,
            f"machine.kernel: {case.machine.kernel}" if "tegra" in case.machine.kernel else "",
        ),
        remedy=(
            "Run an image made for the L4T release of the machine (cat /etc/nv_tegra_release), or flash the "
            "JetPack that the image is for."
        ),
        commands=("cat /etc/nv_tegra_release",),
        sources=(known()["jetson"]["source"],),
        likelihood=92 if apart and failed else 88 if apart else 84 if minor else 62,
    )


# ---- nothing to repair -------------------------------------------------------------------------------------------

_OF_THE_PROGRAM = (
    r"cuda out of memory|hip out of memory|torch\.(?:cuda\.)?OutOfMemoryError"
    r"|expected all tensors to be on the same device|mat1 and mat2 shapes|size mismatch|shape .* is invalid"
    r"|expected scalar type|(?:Key|Index|Attribute|Type|FileNotFound)Error: (?!.*(?:torch|cuda|_C\b|lib\w+\.so))"
    r"|gated repo|401 client error|token .*(?:invalid|required)|loss is nan"
    r"|checkpoint .*(?:not found|mismatch)|unexpected key\(s\) in state_dict|missing key\(s\) in state_dict"
    r"|input type .*and weight type"
)


def environment_ok(case: Case) -> Iterator[Finding]:
    """The accelerator is seen and used; what failed is the program's own."""
    torch = case.torch
    if torch.available is not True or torch.device_count == 0:
        return
    said = case.hit(_OF_THE_PROGRAM, "error", "traceback", "log", "python")
    if said is None:
        return
    count = f", {torch.device_count} of them" if torch.device_count and torch.device_count > 1 else ""
    yield Finding(
        cause="none-environment-ok",
        message=(
            f"torch {torch.version} sees the accelerator{count}; what failed is in the program or its data, "
            f"not in the environment"
        ),
        evidence=_evidence("torch.available: true", said),
        remedy=(
            "Nothing is to be repaired in driver, wheel or container; look into the program at the place that the message names."
        ),
        severity=Severity.INFO,
        likelihood=20,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    toolkit,
    cdi_stale,
    driver_files_in_image,
    no_gpu_flag,
    cgroup_device_loss,
    shm_small,
    rocm_device_missing,
    gid_mismatch,
    jetson_l4t_mismatch,
    environment_ok,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "container-toolkit-missing": ("container-no-gpu-flag", "nvidia-module-not-built", "cuda-visible-devices-hides-gpu"),
    "container-runtime-unsupported": ("container-toolkit-missing", "container-no-gpu-flag", "nvidia-module-not-built"),
    "container-no-gpu-flag": (
        "nvidia-module-not-built",
        "cuda-visible-devices-hides-gpu",
        "nvidia-driver-too-old",
        "hardware-fault-suspected",
    ),
    "container-cgroup-device-loss": (
        "hybrid-power-management",
        "cuda-visible-devices-hides-gpu",
        "hardware-fault-suspected",
        "nvidia-uvm-stale-after-suspend",
    ),
    "container-rocm-device-missing": (
        "container-gid-mismatch",
        "rocm-user-not-in-render-group",
        "rocm-gfx-not-in-wheel",
        "container-no-gpu-flag",
    ),
    "container-gid-mismatch": (
        "rocm-user-not-in-render-group",
        "xpu-user-not-in-render-group",
        "xpu-compute-runtime-too-old",
        "rocm-gfx-not-in-wheel",
    ),
    "jetson-l4t-mismatch": (
        "nvidia-driver-too-old",
        "container-no-gpu-flag",
        "cpu-arch-no-cuda-wheel",
        "wheel-lacks-gpu-arch-variant",
    ),
}
