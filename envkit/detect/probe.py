"""Reads what a machine says of itself and prints it as one JSON document, unexplained.

One file of the standard library for Python >= 3.8, since it runs inside hosts as they are found. It only reads, never
imports a framework, and gives every tool a time limit. What its text means is decided elsewhere, by pure parsers.
"""

import functools
import json
import os
import re
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

FORMAT = 1  # of the raw document, which never leaves the program
MARK = "@envkit-raw@"  # in front of the document, so that a login banner before it does no harm
STEP = "@envkit-step@"  # in front of what a step of the look inside is called, on standard error
TOOL_LIMIT = 7.5  # seconds for one tool; eight cards without persistence mode take their time
DEADLINE = 8.5  # seconds for all of them together
OUTPUT_LIMIT = 400000  # bytes; eight cards fill a hundred thousand

_FILE_LIMIT = 65536
_LIST_LIMIT = 400

# Tools are looked for here too: a service or a bare `ssh host command` often has a shorter PATH than a login.
TOOL_FOLDERS = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/lib/wsl/lib",
    "/opt/rocm/bin",
    "/opt/rocm/core/bin",
    "/usr/local/cuda/bin",
    "/usr/local/Ascend/driver/tools",
    "/run/current-system/sw/bin",
]

# These would make a tool hide devices, or tell of a pretended one.
_HIDING = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION", "ZE_AFFINITY_MASK"]

# Read as they are, when they exist.
FILES = [
    "/etc/os-release",
    "/usr/lib/os-release",
    "/etc/redhat-release",
    "/etc/nv_tegra_release",
    "/proc/sys/kernel/osrelease",
    "/proc/driver/nvidia/version",
    "/proc/device-tree/model",
    "/proc/device-tree/compatible",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/sys/class/dmi/id/product_version",
    "/proc/meminfo",
    "/proc/self/cgroup",
    "/proc/1/cgroup",
    "/run/.containerenv",
    "/run/systemd/container",
    "/usr/local/cuda/version.json",
    "/usr/local/cuda/version.txt",
    "/opt/rocm/.info/version",
    "/opt/rocm/core/.info/version",
    "/usr/local/Ascend/driver/version.info",
    "/usr/local/Ascend/ascend-toolkit/latest/version.cfg",
    "/usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info",
    "/usr/local/Ascend/ascend-toolkit/latest/x86_64-linux/ascend_toolkit_install.info",
    "/usr/local/Ascend/cann/aarch64-linux/ascend_toolkit_install.info",
    "/usr/local/Ascend/cann/x86_64-linux/ascend_toolkit_install.info",
]

# Only their existence counts.
MARKS = [
    "/.dockerenv",
    "/run/.containerenv",
    "/run/systemd/system",
    "/dev/lxd/sock",
    "/.singularity.d",
    "/.flatpak-info",
    "/proc/vz",
    "/proc/bc",
    "/var/run/secrets/kubernetes.io",
    "/sys/firmware",
    "/sys/firmware/efi",
    "/sys/firmware/devicetree",
    "/usr/lib/wsl/lib",
    "/usr/lib/wsl/drivers",
    "/proc/driver/nvidia",
    "/sys/class/kfd/kfd",
    "/sys/bus/pci/devices",
]

_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

_MODULES = re.compile(
    r"(nvidia|nouveau|nova|nvgpu|gdrdrv|amdgpu|amdkfd|amdxcp|radeon|hydcu|i915|xe$|intel_vpu|amdxdna|habanalabs|neuron$|gasket|apex$|"
    r"tpu|vfio|dxgkrnl|mtgpu|musa|cambricon|drv_davinci|drv_pcie|ascend|davinci|iluvatar|metax|enflame|xocl|binder_linux$)"
)

_NODES = re.compile(
    r"(nvidia|nvhost|nvmap|kfd$|dxg$|accel|davinci|devmm_svm$|hisi_hdc$|neuron|cambricon|mtgpu|mthreads|habana|hl\d|apex_|"
    r"iluvatar|mxcd$|tenstorrent)"
)
_NODE_FOLDERS = ["dri", "accel", "nvidia-caps", "tenstorrent", "vfio", "habanalabs"]

# Opening these wakes no device; inside a container it is the only way to see a refusal by the device cgroup.
_OPENED = re.compile(r"/dev/(nvidiactl|kfd|dri/renderD\d+)$")

PACKAGES = re.compile(
    r"(nvidia|libnvidia|libcuda|cuda-(drivers|toolkit|runtime|compat)|libcudnn|cudnn|kmod-nvidia|akmod-nvidia|xserver-xorg-video-nvidia|"
    r"linux-(image|modules-nvidia|generic|headers-generic)|kernel-(core|default|devel)$|dkms$|amdgpu|libdrm-amdgpu|rocm|rocminfo|hip-|"
    r"hsa-|libhsa|amd-smi|intel-(opencl|level-zero|i915|gpu|compute|media|oneapi-runtime|oneapi-base|fw-gpu|driver-compiler|npu)|"
    r"libze|level-zero|xpu-smi|xpumanager|libigc|libigdgmm|docker|containerd|podman|libpod|moby-engine|mokutil|shim-signed|"
    r"firmware-(amd|nvidia|intel)|linux-firmware|ascend|mthreads|musa|habanalabs|aws-neuronx?)"
)

_ENVIRONMENT = re.compile(
    r"(CUDA|NVIDIA|HIP|ROCR|ROCM|HSA|GPU_DEVICE_ORDINAL|ONEAPI|ZE_|ZES_|SYCL|UR_|PYTORCH|TORCH|LD_LIBRARY_PATH|LD_PRELOAD|ASCEND|"
    r"PJRT|TPU_VISIBLE|XLA|JAX|OMP_NUM_THREADS|KMP_|MKL_|CONDA_PREFIX|VIRTUAL_ENV|PYTHONPATH|PYTHONHOME|MTHREADS|MUSA|MLU_|"
    r"NEURON_RT|HABANA|MIOPEN|TRITON|WSL_DISTRO_NAME|WSL_INTEROP|DISPLAY_GPU|DRI_PRIME|__NV_PRIME|container$|KUBERNETES_SERVICE_PORT$|"
    r"APPTAINER_CONTAINER|SINGULARITY_CONTAINER)"
)
_PRIVATE = re.compile(r"HOST|TOKEN|KEY|SECRET|PASS|CREDENTIAL|SERIAL|PROXY|_URL|ENDPOINT|USER")

_DISTRIBUTIONS = re.compile(
    r"(torch|pytorch|numpy$|triton|nvidia|cuda|cupy|jax|libtpu|tensorflow|onnxruntime|openvino|intel|dpcpp|mkl|oneccl|ipex|xformers|"
    r"flash_attn|bitsandbytes|vllm|rocm|amdsmi|deepspeed|mindspore|paddlepaddle|mlx|habana|neuronx?|tilelang|accelerate$|"
    r"transformers$|keras$|lightning$|pip$|uv$|setuptools$)",
    re.IGNORECASE,
)

UNITS = ["nvidia-fabricmanager", "nvidia-persistenced"]
_UNIT_FOLDERS = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"]

# Vendors whose devices count whatever class they claim: Habana, Cambricon, Google, Tenstorrent, Enflame.
_ALWAYS = {"0x1da3", "0xcabc", "0x1ae0", "0x1e52", "0x1e36"}

# Each tells what its vendor's driver sees; those without a parser are kept for what they say when they fail.
_VENDOR_TOOLS = [
    ["rocminfo"],
    ["amd-smi", "static", "--json"],
    ["xpu-smi", "discovery", "-j"],
    ["npu-smi", "info"],
    ["hl-smi"],
    ["cnmon"],
    ["mthreads-gmi"],
    ["neuron-ls"],
    ["prime-select", "query"],
    ["envycontrol", "--query"],
    ["supergfxctl", "--get"],
]

# Newest first: an older nvidia-smi refuses the whole query for one column that it does not know.
_NVIDIA_QUERIES = [
    "index,name,pci.bus_id,pci.device_id,driver_version,memory.total,mig.mode.current,compute_cap",
    "index,name,pci.bus_id,pci.device_id,driver_version,memory.total,mig.mode.current",
    "index,name,pci.bus_id,pci.device_id,driver_version,memory.total",
]

# What Windows knows of its display adapters. Signed drivers are asked only where an adapter tells no version: that
# query takes seconds. The registry has the memory size, which the video class caps at 4 GiB.
POWERSHELL = r"""
$ErrorActionPreference = 'SilentlyContinue'
$ProgressPreference = 'SilentlyContinue'
[Console]::OutputEncoding = [Text.Encoding]::UTF8
$system = Get-CimInstance Win32_OperatingSystem |
  Select-Object -Property ('Caption', 'Version', 'BuildNumber', 'ProductType', 'OSArchitecture', 'TotalVisibleMemorySize')
$video = @(Get-CimInstance Win32_VideoController |
  Select-Object -Property ('Name', 'AdapterCompatibility', 'DriverVersion', 'PNPDeviceID', 'AdapterRAM'))
$drivers = @()
if ($video | Where-Object { -not $_.DriverVersion }) {
  $drivers = @(Get-CimInstance Win32_PnPSignedDriver -Filter "DeviceClass='DISPLAY'" -OperationTimeoutSec 3 |
    Select-Object -Property ('DeviceName', 'DriverVersion', 'DeviceID', 'DriverProviderName'))
}
$plugged = @(Get-CimInstance Win32_PnPEntity -Filter "DeviceID LIKE 'PCI\\VEN_%'" |
  Where-Object { "$($_.CompatibleID)" -match 'CC_(03|12)' } |
  Select-Object -Property ('Name', 'DeviceID', 'Service', 'ConfigManagerErrorCode'))
$control = 'HKLM:\SYSTEM\CurrentControlSet\Control'
$size = @{ Name = 'Memory'; Expression = { $_.PSObject.Properties['HardwareInformation.qwMemorySize'].Value } }
$registry = @(Get-ItemProperty "$control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}\0*" |
  Select-Object -Property ('DriverDesc', 'DriverVersion', 'MatchingDeviceId', $size))
$long = (Get-ItemProperty "$control\FileSystem").LongPathsEnabled
$runtime = (Get-ItemProperty 'HKLM:\SOFTWARE\Microsoft\VisualStudio\14.0\VC\Runtimes\X64').Version
$secure = (Get-ItemProperty "$control\SecureBoot\State").UEFISecureBootEnabled
$cpus = (Get-CimInstance Win32_ComputerSystem).NumberOfLogicalProcessors
$told = @{ os = $system; video = $video; drivers = $drivers; pnp = $plugged; registry = $registry }
$told += @{ secure_boot = $secure; cpus = $cpus; long_paths = $long; vc_runtime = "$runtime" }
$told | ConvertTo-Json -Depth 4 -Compress
"""

Json = Dict[str, Any]
# (argv, seconds) -> {"code", "stdout", "stderr", "timed_out"}; None where there is no such program
RunTool = Callable[[List[str], float], Optional[Json]]


# ---- files -------------------------------------------------------------------------------------------------------


class Files:
    """The files below a root; a fixture tree is read by the same code as a machine. Nothing that fails raises."""

    def __init__(self, root: str = "/") -> None:
        self.root = root.rstrip("/")
        self.live = self.root == ""

    def place(self, path: str) -> str:
        """Where `path` really lies."""
        return self.root + path

    def text(self, path: str, limit: int = _FILE_LIMIT) -> Optional[str]:
        """The start of a file, or None where it cannot be read."""
        data = self.data(path, limit)
        return None if data is None else data.decode("utf-8", "replace")

    def data(self, path: str, limit: int = _FILE_LIMIT) -> Optional[bytes]:
        """The first bytes of a file, or None where it cannot be read."""
        try:
            with open(self.place(path), "rb", buffering=0) as stream:
                parts = []
                left = limit
                while left > 0:
                    part = stream.read(left)
                    if not part:
                        break
                    parts.append(part)
                    left -= len(part)
                return b"".join(parts)
        except (OSError, ValueError):
            return None

    def word(self, path: str) -> str:
        """A one-line file without its line end; "" where it cannot be read."""
        return (self.text(path, 4096) or "").strip("\0\r\n\t ")

    def names(self, path: str) -> List[str]:
        """The names in a folder, sorted."""
        try:
            return sorted(os.listdir(self.place(path)))
        except OSError:
            return []

    def link(self, path: str) -> str:
        """The last part of what a symbolic link points to, or ""."""
        try:
            return os.path.basename(os.readlink(self.place(path)))
        except (OSError, ValueError):
            return ""

    def exists(self, path: str) -> bool:
        """Whether there is something at `path`."""
        return os.path.lexists(self.place(path))


# ---- tools -------------------------------------------------------------------------------------------------------


def tool_environment() -> Dict[str, str]:
    """The environment for tools: plain English, and nothing that hides devices from them."""
    env = dict(os.environ)
    for name in _HIDING:
        env.pop(name, None)
    env["LC_ALL"] = "C"
    return env


def run_tool(argv: List[str], limit: float, env: Optional[Dict[str, str]] = None) -> Optional[Json]:
    """How a tool ended within `limit` seconds; it and all it started are killed then. None: no such program."""
    import subprocess
    import threading

    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=tool_environment() if env is None else env,
            start_new_session=os.name == "posix",
        )
    except (OSError, ValueError) as fault:
        if isinstance(fault, FileNotFoundError):
            return None
        return {"code": None, "stdout": "", "stderr": str(fault), "timed_out": False}
    parts: Tuple[List[bytes], List[bytes]] = ([], [])

    def drain(stream: Any, kept: List[bytes]) -> None:
        room = OUTPUT_LIMIT
        try:
            while room > 0:
                part = os.read(stream.fileno(), 65536)
                if not part:
                    return
                kept.append(part)
                room -= len(part)
        except (OSError, ValueError):
            return
        end_tool(child)  # nothing that is worth reading says so much

    readers = [
        threading.Thread(target=drain, args=pair, daemon=True) for pair in ((child.stdout, parts[0]), (child.stderr, parts[1]))
    ]
    for reader in readers:
        reader.start()
    timed_out = False
    try:
        child.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        timed_out = True
        end_tool(child)
        try:
            # Short: a child stuck inside a driver cannot even be killed, and must not keep us.
            child.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            pass
    for reader in readers:
        # A grandchild may hold the pipe open for as long as it likes.
        reader.join(timeout=0.3)
    return {
        "code": None if timed_out else child.returncode,
        "stdout": b"".join(parts[0]).decode("utf-8", "replace"),
        "stderr": b"".join(parts[1])[:20000].decode("utf-8", "replace"),
        "timed_out": timed_out,
    }


def end_tool(child: Any) -> None:
    """Kills a tool and its whole group."""
    import signal

    try:
        if os.name == "posix":
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    except OSError:
        pass


def find_tool(name: str) -> Optional[str]:
    """The path of a tool, on PATH or where vendors put it."""
    folders = [part for part in os.environ.get("PATH", "").split(os.pathsep) if part] + TOOL_FOLDERS
    for folder in folders:
        path = os.path.join(folder, name)
        try:
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        except (OSError, ValueError):
            continue
    return None


class Tools:
    """Calls of tools, kept by the command line that a person would type."""

    def __init__(self, run: RunTool, which: Callable[[str], Optional[str]], deadline: float) -> None:
        self.run = run
        self.which = which
        self.deadline = deadline
        self.answers: Json = {}

    def ask(self, name: str, *arguments: str, limit: float = TOOL_LIMIT, path: str = "", key: str = "") -> Optional[Json]:
        """The answer of a tool, or None where it is not installed or no time is left."""
        found = path or self.which(name)
        if not found:
            return None
        key = key or " ".join((name, *arguments))
        left = self.deadline - time.monotonic()
        if left <= 0.05:
            self.answers.setdefault(key, {"code": None, "stdout": "", "stderr": "", "timed_out": True, "limit": 0})
            return None
        limit = min(limit, left)
        # Taken for unanswered until it answers: the reader of `answers` does not wait for ever.
        self.answers[key] = {"code": None, "stdout": "", "stderr": "", "timed_out": True, "limit": round(limit, 1)}
        answer = self.run([found, *arguments], limit)
        if answer is None:
            self.answers.pop(key, None)
            return None
        answer["limit"] = round(limit, 1)
        self.answers[key] = answer
        return answer


def _said(answer: Json) -> str:
    return str(answer.get("stdout")) + str(answer.get("stderr"))


def ask_nvidia(tools: Tools) -> None:
    """nvidia-smi's table of devices, without the columns that an older one does not know; and the MIG devices."""
    answer = None
    for columns in _NVIDIA_QUERIES:
        answer = tools.ask("nvidia-smi", "--query-gpu=" + columns, "--format=csv,noheader,nounits")
        if answer is None or answer.get("timed_out") or "not a valid field" not in _said(answer):
            break
    if answer is not None and "Enabled" in str(answer.get("stdout")):
        tools.ask("nvidia-smi", "-L")


def ask_header(tools: Tools) -> None:
    """nvidia-smi's header, the only place where it tells its own version and that of the user-space libraries."""
    tools.ask("nvidia-smi")


# ---- sections ----------------------------------------------------------------------------------------------------


def read_pci(files: Files) -> List[Json]:
    """The display, 3D and accelerator devices of the PCI bus, and NVIDIA's switches."""
    found = []
    base = "/sys/bus/pci/devices"
    for address in files.names(base):
        folder = base + "/" + address
        kind = files.word(folder + "/class")
        vendor = files.word(folder + "/vendor")
        if not (
            kind.startswith(("0x03", "0x12", "0x0b40"))
            or vendor in _ALWAYS
            or (vendor == "0x10de" and kind.startswith("0x0680"))
            or (vendor == "0x1d0f" and files.word(folder + "/device").startswith("0x7"))
        ):
            continue
        device: Json = {
            "address": address,
            "vendor": vendor,
            "device": files.word(folder + "/device"),
            "class": kind,
            "driver": files.link(folder + "/driver"),
        }
        for name in ("boot_vga", "product_name", "sriov_numvfs", "mem_info_vram_total"):
            value = files.word(folder + "/" + name)
            if value:
                device[name] = value
        if vendor == "0x8086":
            # xe tells the memory of each tile; i915 of the card, in Intel's own builds only.
            sizes = [files.word(folder + "/" + name + "/physical_vram_size_bytes") for name in ("tile0", "tile1")]
            sizes += [files.word(folder + "/drm/" + name + "/lmem_total_bytes") for name in files.names(folder + "/drm")]
            total = sum(int(size) for size in sizes if size.isdigit())
            if total:
                device["mem_info_vram_total"] = str(total)
        parent = files.link(folder + "/physfn")
        if parent:
            device["physfn"] = parent
        found.append(device)
    return found[:_LIST_LIMIT]


def read_drm(files: Files) -> List[Json]:
    """The DRM nodes with the device that each belongs to."""
    found = []
    for name in files.names("/sys/class/drm"):
        if not re.match(r"(card|renderD)\d+$", name):
            continue
        device = "/sys/class/drm/" + name + "/device"
        found.append({"name": name, "address": files.link(device), "driver": files.link(device + "/driver")})
    return found[:_LIST_LIMIT]


def read_kfd(files: Files) -> List[Json]:
    """The nodes of amdgpu's compute topology."""
    base = "/sys/class/kfd/kfd/topology/nodes"
    found = []
    for node in files.names(base):
        properties = files.text(base + "/" + node + "/properties")
        if properties is not None:
            found.append({"node": node, "properties": properties, "name": files.word(base + "/" + node + "/name")})
    return found[:_LIST_LIMIT]


def read_nvidia(files: Files) -> Json:
    """What NVIDIA's module says of each device, and which MIG instances it has."""
    base = "/proc/driver/nvidia/gpus"
    gpus = {address: files.text(base + "/" + address + "/information") or "" for address in files.names(base)[:_LIST_LIMIT]}
    mig = {}
    for gpu in files.names("/proc/driver/nvidia/capabilities"):
        instances = [name for name in files.names("/proc/driver/nvidia/capabilities/" + gpu + "/mig") if name.startswith("gi")]
        if instances:
            mig[gpu] = instances
    return {"gpus": gpus, "mig": mig}


def read_modules(files: Files) -> Json:
    """Loaded kernel modules that matter, with their version where they tell one; built-in ones count."""
    loaded = {}
    names = [line.split(" ", 1)[0] for line in (files.text("/proc/modules", 1 << 20) or "").splitlines() if line]
    for name in sorted(set(names) | set(files.names("/sys/module"))):
        if _MODULES.match(name):
            loaded[name] = files.word("/sys/module/" + name + "/version")
    return loaded


def read_nodes(files: Files, in_container: bool) -> List[Json]:
    """Device nodes that matter, and whether this user may open them."""
    paths = ["/dev/" + name for name in files.names("/dev") if _NODES.match(name) and name not in _NODE_FOLDERS]
    for folder in _NODE_FOLDERS:
        paths += ["/dev/" + folder + "/" + name for name in files.names("/dev/" + folder) if not name.startswith("by-")]
    found = []
    for path in paths[:_LIST_LIMIT]:
        place = files.place(path)
        node: Json = {"path": path}
        try:
            status = os.stat(place)
            if (status.st_mode & 0o170000) == 0o040000:
                continue
            node.update({"mode": "%o" % (status.st_mode & 0o7777), "uid": status.st_uid, "gid": status.st_gid})
        except OSError:
            continue
        node["open"] = os.access(place, os.R_OK | os.W_OK)
        if node["open"] and in_container and files.live and _OPENED.match(path):
            try:
                os.close(os.open(place, os.O_RDWR | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)))
            except OSError as fault:
                node["open"] = False
                node["error"] = os.strerror(fault.errno or 0)
        found.append(node)
    return found


def read_libraries(files: Files) -> List[str]:
    """The versioned files of the vendors' user-space drivers, and what the plain names point to."""
    found = []
    folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib"]
    folders += ["/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib64/nvidia", "/run/opengl-driver/lib"]
    for folder in folders:
        for name in files.names(folder):
            if re.match(r"(libcuda|libnvidia-ml|libze_intel_gpu|libamdhip64|libhsa-runtime64)\.so", name):
                found.append(folder + "/" + name + (" -> " + files.link(folder + "/" + name)).rstrip(" ->"))
    return found[:_LIST_LIMIT]


def read_library_path(files: Files) -> Json:
    """What of the vendors' libraries lies in the folders that LD_LIBRARY_PATH puts first."""
    pattern = re.compile(
        r"lib(cuda|cudart|cudnn\w*|cublas\w*|nccl|nvidia-ml|amdhip64|hsa-runtime64|ze_loader|sycl|ascendcl|hccl|stdc\+\+|c10|torch)\.so"
    )
    found = {}
    for folder in [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part.startswith("/")][:40]:
        names = [name for name in files.names(folder) if pattern.match(name)]
        if names:
            found[folder] = names[:40]
    return found


def read_settings(files: Files) -> Json:
    """What this machine was told of its drivers: modules built by DKMS, module options, CDI specifications, OpenCL's list."""
    found: Json = {"dkms": read_dkms(files), "modprobe": [], "cdi": [], "opencl": []}
    about = re.compile(r"\s*(blacklist|options|install|alias|softdep)\s+(nvidia|nouveau|nova|amdgpu|radeon|i915|xe|habanalabs)\b")
    for folder in ("/usr/lib/modprobe.d", "/lib/modprobe.d", "/etc/modprobe.d"):
        for name in files.names(folder):
            for line in (files.text(folder + "/" + name) or "").splitlines() if name.endswith(".conf") else ():
                if about.match(line):
                    found["modprobe"].append(folder + "/" + name + ": " + line.strip()[:200])
    for folder in ("/etc/cdi", "/var/run/cdi"):
        for name in files.names(folder):
            kind = re.search(r"\bkind\"?:\s*\"?([\w./-]+)", files.text(folder + "/" + name) or "")
            found["cdi"].append(folder + "/" + name + (": " + kind.group(1) if kind else ""))
    found["opencl"] = files.names("/etc/OpenCL/vendors")
    release = files.word("/proc/sys/kernel/osrelease")
    if release and files.names("/lib/modules/" + release):
        found["headers"] = bool(files.names("/lib/modules/" + release + "/build"))
    return found


def read_dkms(files: Files) -> List[str]:
    """The state of DKMS in the words of `dkms status`, from its own folders."""
    found = []
    for module in files.names("/var/lib/dkms"):
        if not re.match(r"(nvidia|amdgpu|intel-i915|i915|xe|habanalabs)", module):
            continue
        for version in files.names("/var/lib/dkms/" + module):
            if version.startswith("kernel-"):
                continue
            base = "/var/lib/dkms/" + module + "/" + version
            if not files.exists(base + "/source/dkms.conf"):
                found.append("%s/%s: broken (no dkms.conf)" % (module, version))
                continue
            kernels = [name for name in files.names(base) if name not in ("source", "build") and files.names(base + "/" + name)]
            for kernel in kernels:
                for arch in files.names(base + "/" + kernel):
                    if files.names(base + "/" + kernel + "/" + arch + "/module"):
                        current = files.exists("/var/lib/dkms/%s/kernel-%s-%s" % (module, kernel, arch))
                        state = "installed" if current else "built"
                        found.append("%s/%s, %s, %s: %s" % (module, version, kernel, arch, state))
            if not kernels:
                found.append("%s/%s: added" % (module, version))
    return found[:40]


def read_toolkits(files: Files) -> Json:
    """Folders whose names tell the version of a system toolkit."""
    found: Json = {}
    for folder, pattern in (
        ("/usr/local", r"cuda-\d"),
        ("/opt", r"rocm-\d"),
        ("/opt/rocm", r"core-\d"),
        ("/opt/intel/oneapi", r"20\d\d\.\d"),
    ):
        names = [name for name in files.names(folder) if re.match(pattern, name)]
        if names:
            found[folder] = names
    for name in ("/opt/intel/oneapi/compiler/latest", "/usr/local/cuda", "/opt/rocm", "/usr/local/Ascend/ascend-toolkit/latest"):
        target = files.link(name)
        if target:
            found[name] = target
    return found


def read_packages(files: Files) -> Json:
    """Installed system packages that matter, from the package manager's own files."""
    found = {}
    status = files.data("/var/lib/dpkg/status", 1 << 26)
    if status is not None:
        for block in status.split(b"\n\n"):
            # The fields stand at the start of a block in this order, but other fields may lie between.
            name = re.match(rb"\s*Package: (\S+)", block)
            if name is None or not PACKAGES.match(name.group(1).decode("utf-8", "replace")):
                continue
            version = re.search(rb"\nVersion: (\S+)", block)
            state = re.search(rb"\nStatus: (.+)", block)
            if version is None or state is None or not state.group(1).strip().endswith(b" installed"):
                continue
            found[name.group(1).decode("utf-8", "replace")] = version.group(1).decode("utf-8", "replace")
    for folder in files.names("/var/lib/pacman/local"):
        part = re.match(r"(.+)-([^-]+-[^-]+)$", folder)
        if part is not None and PACKAGES.match(part.group(1)):
            found[part.group(1)] = part.group(2)
    for block_text in (files.text("/lib/apk/db/installed", 1 << 24) or "").split("\n\n"):
        pair = re.search(r"^P:(\S+)$", block_text, re.M), re.search(r"^V:(\S+)$", block_text, re.M)
        if pair[0] is not None and pair[1] is not None and PACKAGES.match(pair[0].group(1)):
            found[pair[0].group(1)] = pair[1].group(1)
    return dict(sorted(found.items())[:_LIST_LIMIT])


def read_limits(files: Files) -> Json:
    """What cgroups allow, from this process's group up to the root; both versions of cgroups."""
    found = {}
    paths: List[Tuple[str, str, Tuple[str, ...]]] = []
    for line in (files.text("/proc/self/cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        if parts[0] == "0":
            paths.append(("/sys/fs/cgroup", parts[2], ("cpu.max", "memory.max")))
            paths.append(("/sys/fs/cgroup/unified", parts[2], ("cpu.max", "memory.max")))
        for controller in parts[1].split(","):
            if controller == "cpu":
                for mount in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"):
                    paths.append((mount, parts[2], ("cpu.cfs_quota_us", "cpu.cfs_period_us")))
            elif controller == "memory":
                paths.append(("/sys/fs/cgroup/memory", parts[2], ("memory.limit_in_bytes",)))
    for mount, group, names in paths:
        group = group if group.startswith("/") and ".." not in group else "/"
        while True:
            for name in names:
                path = mount + group.rstrip("/") + "/" + name
                text = files.word(path)
                if text:
                    found[path] = text
            if group in ("/", ""):
                break
            group = group.rsplit("/", 1)[0] or "/"
    return found


def read_identity(files: Files) -> Json:
    """Who runs this, by number, and the names of the groups."""
    if not hasattr(os, "getgroups"):
        return {}
    named = {}
    for line in (files.text("/etc/group", 1 << 20) or "").splitlines():
        parts = line.split(":")
        if len(parts) >= 3 and parts[2].isdigit():
            named[int(parts[2])] = parts[0]
    groups = []
    for number in sorted(set(os.getgroups()) | {os.getegid()}):
        name = named.get(number, "")
        if not name and files.live:
            try:
                import grp

                name = grp.getgrgid(number).gr_name
            except (ImportError, KeyError, OSError):
                name = ""
        groups.append({"id": number, "name": name})
    return {"uid": os.geteuid(), "gid": os.getegid(), "groups": groups}


def read_kernel_log(files: Files) -> List[str]:
    """What the kernel complained of accelerators, where this user may read it."""
    if not files.live:
        return (files.text("/dev/kmsg") or "").splitlines()[:_LIST_LIMIT]
    try:
        handle = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    lines: List[str] = []
    about = re.compile(rb"NVRM|nouveau|nvidia|amdgpu|kfd|i915|\bxe\b|habanalabs|davinci|Lockdown|module verification|Loading of ")
    tells = re.compile(
        rb"NVRM|error|fail|not supported|reject|unable|timeout|cannot|disabled|unsupported|taint|restricted|unsigned", re.I
    )
    until = time.monotonic() + 0.3
    try:
        for _ in range(40000):
            if time.monotonic() > until:
                break
            try:
                record = os.read(handle, 8192)
            except BrokenPipeError:  # overwritten while it was read
                continue
            if not record:
                break
            text = record.split(b"\n", 1)[0].split(b";", 1)[-1]
            if about.search(text) and tells.search(text):
                lines.append(text[:300].decode("utf-8", "replace"))
    except OSError:
        pass
    finally:
        os.close(handle)
    return lines[-40:]


def read_environment() -> Dict[str, str]:
    """Environment variables that decide what accelerators a process sees."""
    return {
        name: value[:4000] for name, value in sorted(os.environ.items()) if _ENVIRONMENT.match(name) and not _PRIVATE.search(name)
    }


def read_python() -> Json:
    """This interpreter, and the packages beside it, by their folders' names alone: nothing is imported."""
    distributions: List[List[str]] = []
    seen: Set[str] = set()
    torch_text = None
    torch_folders: List[str] = []
    for folder in sys.path:
        folder = folder or "."
        if folder in seen:
            continue
        seen.add(folder)
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in sorted(names):
            if not name.endswith((".dist-info", ".egg-info")) or not _DISTRIBUTIONS.match(name.split("-")[0]):
                continue
            found = _distribution(os.path.join(folder, name))
            if found is not None:
                distributions.append([found[0], found[1], folder])
        if "torch" in names:
            try:
                with open(os.path.join(folder, "torch", "version.py"), encoding="utf-8", errors="replace") as stream:
                    text = stream.read(_FILE_LIMIT)
            except (OSError, ValueError):
                continue
            torch_folders.append(folder)
            torch_text = text if torch_text is None else torch_text
    bits = 64 if sys.maxsize > 2**32 else 32
    return {
        # A free-threaded build needs wheels of its own; its tag ends in "t".
        "version": "%d.%d.%d" % sys.version_info[:3] + ("t" if "t" in getattr(sys, "abiflags", "") else ""),
        "full_version": sys.version.replace("\n", " "),
        "executable": sys.executable or "",
        "bits": bits,
        "distributions": distributions[:_LIST_LIMIT],
        "torch_version_py": torch_text,
        "torch_folders": torch_folders,
        "user_site": _user_site(),
        "plan": _recorded_plan(),
    }


def _user_site() -> str:
    """The user's own folder of packages, where this interpreter looks into it; "" where it does not."""
    site = sys.modules.get("site")
    if site is None or not getattr(site, "ENABLE_USER_SITE", False):
        return ""
    folder = str(getattr(site, "USER_SITE", "") or "")
    return folder if folder in sys.path else ""


def _recorded_plan() -> List[str]:
    """What envkit noted beside an environment of its making: name==version, the framework among them."""
    try:
        with open(os.path.join(sys.prefix, "envkit", "plan.json"), encoding="utf-8") as stream:
            packages = json.loads(stream.read(1 << 20)).get("packages", [])
        return ["%s==%s" % (each["name"], each["version"]) for each in packages][:50]
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return []


def _distribution(path: str) -> Optional[Tuple[str, str]]:
    for name in ("METADATA", "PKG-INFO", ""):
        try:
            with open(os.path.join(path, name) if name else path, encoding="utf-8", errors="replace") as stream:
                head = stream.read(8192)
        except (OSError, ValueError):
            continue
        title = re.search(r"^Name: *(\S+)", head, re.M)
        version = re.search(r"^Version: *(\S+)", head, re.M)
        if title is not None and version is not None:
            return title.group(1), version.group(1)
    return None


def read_processors() -> Optional[int]:
    """How many processors this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()


def read_shared_memory(files: Files) -> Optional[int]:
    """The size of /dev/shm in bytes."""
    try:
        status = os.statvfs(files.place("/dev/shm"))
    except (AttributeError, OSError):
        return None
    return status.f_blocks * status.f_frsize


def try_shared_memory(files: Files) -> str:
    """The error with which /dev/shm refuses what workers of a data loader hand each other; "" where there is room.

    Asked only where there is hardly any, with a file without a name, of which nothing stays.
    """
    wanted = 32 << 20
    place = files.place("/dev/shm")
    try:
        status = os.statvfs(place)
        free = status.f_bavail * status.f_frsize
        if free >= wanted or not hasattr(os, "O_TMPFILE") or not hasattr(os, "posix_fallocate"):
            return ""
        handle = os.open(place, os.O_TMPFILE | os.O_RDWR, 0o600)
    except (AttributeError, OSError):
        return ""
    try:
        os.posix_fallocate(handle, 0, wanted)
    except OSError as fault:
        total = status.f_blocks * status.f_frsize
        return "/dev/shm: %s: %d MiB are free of %d, 32 were asked for" % (os.strerror(fault.errno or 0), free >> 20, total >> 20)
    finally:
        os.close(handle)
    return ""


def read_secure_boot(files: Files) -> Optional[bool]:
    """The firmware's own variable: four bytes of attributes, then the value."""
    data = files.data(_SECURE_BOOT, 16)
    return data[4] == 1 if data is not None and len(data) >= 5 else None


def read_libc() -> str:
    """The C library of this interpreter as it names itself; "" where it does not (musl, static)."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return ""


# ---- inside the Python in question -------------------------------------------------------------------------------
#
# What only an import tells is asked in a process of its own: some versions crash inside is_available(), others hang there.

_LOADED = re.compile(
    r"lib(cuda|cudart|cudnn|cublas|cublasLt|cupti|nvrtc|nccl|nvidia-ml|amdhip64|hsa-runtime64|rccl|MIOpen|ze_loader|ze_intel_gpu|"
    r"sycl|ur_loader|OpenCL|hccl|ascendcl|gomp|omp|iomp5|stdc\+\+)(_[\w.]+)?(-[0-9a-f]+)?\.so"
)


def look_inside(limit: float) -> None:
    """Prints what this interpreter and its torch are, a marked line a step, each before the next one may crash."""
    import signal

    if hasattr(signal, "alarm"):
        signal.alarm(int(limit) + 2)  # ends it even where nobody is left to do so

    def tell(**found: Any) -> None:
        if "begin" in found:
            # So that it is known which step printed what follows.
            sys.stderr.write("\n" + STEP + str(found["begin"]) + "\n")
            sys.stderr.flush()
        sys.stdout.write("\n" + MARK + json.dumps(found, ensure_ascii=True) + "\n")
        sys.stdout.flush()

    python = read_python()
    tell(python=python)
    names = {re.sub(r"[-_.]+", "-", row[0]).lower() for row in python["distributions"]}
    if python["torch_folders"] or "torch" in names:
        _look_into_torch(tell, names)
    if any(name.startswith("onnxruntime") for name in names):
        tell(begin="import onnxruntime")
        tell(onnxruntime=_tried(_onnxruntime_providers))
    tell(end=True)


def _look_into_torch(tell: Callable[..., None], names: Set[str]) -> None:
    tell(begin="import torch")
    try:
        any_torch: Any = __import__("torch")
    except BaseException as fault:  # SystemExit too: some packages end the process when a library is missing
        tell(error=["import torch", _described(fault)])
        return
    version = getattr(any_torch, "version", None)
    told: Json = {"version": str(any_torch.__version__), "file": str(getattr(any_torch, "__file__", "") or "")}
    for name in ("cuda", "hip", "xpu"):
        told[name] = str(getattr(version, name, None) or "")
    tell(torch=told)
    flags = getattr(getattr(any_torch, "_C", None), "_cuda_getArchFlags", None)
    archs = _tried(flags) if flags else [None, ""]
    if isinstance(archs[0], str):
        tell(torch={"arch_list": archs[0].split()})
    if told["cuda"] or told["hip"]:
        _look_at_devices(tell, any_torch.cuda, "torch.cuda")
    elif told["xpu"] or (hasattr(any_torch, "xpu") and "+xpu" in told["version"]):
        _look_at_devices(tell, any_torch.xpu, "torch.xpu")
    elif sys.platform == "darwin":
        tell(begin="torch.backends.mps.is_available()")
        for name in ("is_built", "is_available"):
            answer = _tried(getattr(any_torch.backends.mps, name))
            tell(torch={"available" if name == "is_available" else "mps_built": bool(answer[0])})
    else:
        tell(torch={"available": False, "device_count": 0, "device_names": []})
    if "numpy" in names:
        tell(begin="torch.zeros(1).numpy()")
        answer = _tried(lambda: str(any_torch.zeros(1).numpy()))
        if answer[1]:
            tell(error=["torch.zeros(1).numpy()", answer[1]])
    tell(libraries=_loaded_libraries())
    for name in ("torchvision", "torchaudio"):
        if name in names:
            tell(begin="import " + name)
            answer = _tried(lambda name=name: str(__import__(name).__version__))  # type: ignore[misc]
            if answer[1]:
                tell(error=["import " + name, answer[1]])
            elif name == "torchvision":
                # Newer ones load their compiled part only when it is called.
                step = "torchvision.ops.nms(boxes, scores, 0.5)"
                tell(begin=step)
                answer = _tried(
                    lambda: __import__("torchvision").ops.nms(any_torch.zeros(1, 4), any_torch.zeros(1), 0.5).tolist()
                )
                if answer[1]:
                    tell(error=[step, answer[1]])


def _look_at_devices(tell: Callable[..., None], module: Any, name: str) -> None:
    tell(begin=name + ".is_available()")
    answer = _tried(module.is_available)
    tell(torch={"available": bool(answer[0])})
    if answer[1]:
        tell(error=[name + ".is_available()", answer[1]])
    tell(begin=name + ".device_count()")
    count = _tried(module.device_count)
    if isinstance(count[0], int):
        tell(torch={"device_count": count[0]})
    if not answer[0]:
        # is_available() swallows the reason; this one says it.
        tell(begin=name + ".init()")
        reason = _tried(lambda: module.init())
        if reason[1]:
            tell(error=[name + ".init()", reason[1]])
        return
    tell(begin=name + ".get_device_name()")
    titles = _tried(lambda: [str(module.get_device_name(at)) for at in range(int(count[0] or 0))])
    if titles[0] is not None:
        tell(torch={"device_names": titles[0]})
    if titles[1]:
        tell(error=[name + ".get_device_name()", titles[1]])


def _onnxruntime_providers() -> Any:
    module: Any = __import__("onnxruntime")
    return {"version": str(module.__version__), "providers": [str(each) for each in module.get_available_providers()]}


def _tried(work: Callable[[], Any]) -> List[Any]:
    """The result and "", or None and the error."""
    try:
        return [work(), ""]
    except BaseException as fault:
        return [None, _described(fault)]


def _described(fault: BaseException) -> str:
    import traceback

    trace = fault.__traceback__
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next  # our own frames are nobody's business
    lines = traceback.format_exception(type(fault), fault, trace)
    return "".join(lines)[-3000:].strip()


def _loaded_libraries() -> List[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as stream:
            text = stream.read(1 << 23)
    except OSError:
        return []
    paths = sorted({line.split(None, 5)[5] for line in text.splitlines() if len(line.split(None, 5)) == 6})
    return [path for path in paths if _LOADED.match(os.path.basename(path))][:_LIST_LIMIT]


def ask_inside(wish: Json, run: Any = None) -> Json:
    """What the interpreter in question says: the first of `pythons` that is there, else the first one on PATH with torch.

    `pythons` are paths, or patterns of them; "strict" says that nothing else counts. Where nothing answers, it is this one.
    """
    import glob

    limit = float(wish.get("limit") or 60.0)
    until = time.monotonic() + limit
    named = [path for each in wish.get("pythons") or [] for path in (sorted(glob.glob(each)) if "*" in each else [each])]
    for path in named:
        if os.path.exists(path):
            return _ask_python(path, until, run)
    if wish.get("strict"):
        return {"missing": named}
    for path in _pythons_on_path():
        if not _may_have_torch(path):
            continue
        found = _ask_python(path, until, run)
        python = found.get("python") or {}
        if python.get("torch_folders"):
            return found
    own = read_python()
    if own["torch_folders"] and sys.executable:
        return _ask_python(sys.executable, until, run)
    return {"python": own}


def _pythons_on_path() -> List[str]:
    found: Dict[str, str] = {}
    names = ["python.exe"] if os.name == "nt" else ["python3", "python"]
    for folder in [part for part in os.environ.get("PATH", "").split(os.pathsep) if part]:
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and os.access(path, os.X_OK) and os.path.getsize(path):
                    # Environments share one interpreter, and differ by the folder that it is started from.
                    found.setdefault(folder + os.path.realpath(path), path)
            except OSError:
                continue
    return list(found.values())[:4]


def _may_have_torch(path: str) -> bool:
    """Whether torch lies where such an interpreter looks; True where that cannot be told from its place. Starts nothing."""
    import glob

    prefix = os.path.dirname(os.path.dirname(path))
    if os.name == "nt":
        prefix = os.path.dirname(path)
        own = os.path.join(prefix if os.path.isdir(os.path.join(prefix, "Lib")) else os.path.dirname(prefix), "Lib")
        libraries = [own] if os.path.isdir(own) else []
    else:
        libraries = glob.glob(os.path.join(prefix, "lib*", "python3*"))
        if os.path.basename(os.path.dirname(path)) == "shims":
            # pyenv, asdf and mise: one script in front of all versions, which takes its time.
            for versions in ("versions/*", "installs/python/*"):
                libraries += glob.glob(os.path.join(prefix, versions, "lib", "python3*"))
    if not libraries:
        return True  # a wrapper, which starts another one
    folders = [os.path.join(library, name) for library in libraries for name in ("site-packages", "dist-packages")]
    folders += [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if prefix == "/usr":
        folders += glob.glob("/usr/local/lib/python3*/dist-packages")
    folders += glob.glob(os.path.join(os.path.expanduser("~"), ".local/lib/python3*/site-packages"))
    for name in [name for folder in folders for name in glob.glob(os.path.join(folder, "*.pth"))]:
        try:
            with open(name, encoding="utf-8", errors="replace") as stream:
                text = stream.read(_FILE_LIMIT)
        except OSError:
            continue
        # A line is a folder, as seen from where the file lies; those that begin with "import" bring no torch.
        added = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("import ", "#"))]
        folders += [os.path.join(os.path.dirname(name), line) for line in added[:50]]
    return any(os.path.isdir(os.path.join(folder, "torch")) for folder in folders)


def _ask_python(path: str, until: float, run: Any = None) -> Json:
    limit = max(1.0, until - time.monotonic())
    env = dict(os.environ)
    env["PYTHONFAULTHANDLER"] = "1"
    env["PYTHONIOENCODING"] = "utf-8"
    env["TF_CPP_MIN_LOG_LEVEL"] = "2"
    answer = (run or run_tool)([path, *_own_code(), "--inside", "%g" % limit], limit, env)
    found: Json = {"asked": path, "torch": {}, "errors": []}
    if answer is None:
        found["errors"].append(["start", "no such program"])
        return found
    begun = ""
    ended = False
    for line in str(answer.get("stdout")).splitlines():
        if not line.startswith(MARK):
            continue
        try:
            told = json.loads(line[len(MARK) :])
        except ValueError:
            continue
        if not isinstance(told, dict):
            continue
        begun = str(told.get("begin") or begun)
        ended = ended or bool(told.get("end"))
        if isinstance(told.get("torch"), dict):
            found["torch"].update(told["torch"])
        if told.get("error"):
            found["errors"].append(told["error"])
        for name in ("python", "libraries", "onnxruntime"):
            if name in told:
                found[name] = told[name]
    found["stderr"] = str(answer.get("stderr"))[-8000:]
    if not ended:
        found["stopped"] = begun or "start"
        found["code"] = answer.get("code")
        found["timed_out"] = bool(answer.get("timed_out"))
        found["limit"] = round(limit, 1)
    return found


def _own_code() -> List[str]:
    """How another interpreter is given this very file: by its name, or where it has none, as text."""
    source = globals().get("PROBE_SOURCE")
    if source is None:
        return [os.path.abspath(__file__)]
    import base64
    import zlib

    return [
        "-c",
        "import base64,zlib;exec(zlib.decompress(base64.b64decode('%s')))" % base64.b64encode(zlib.compress(source)).decode(),
    ]


# ---- all together ------------------------------------------------------------------------------------------------


class Jobs:
    """Pieces of reading that run side by side; one that never ends is left behind when the time is up."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.results: Json = {}
        self.faults: List[str] = []
        self.threads: List[Tuple[str, Any, float]] = []

    def start(self, name: str, work: Callable[[], Any], more: float = 0.0) -> None:
        """Starts `work`; its result is kept under `name`, but for the calls of tools, which are kept by themselves.

        `more` are seconds that it may take beyond the deadline of the others.
        """
        import threading

        def body() -> None:
            try:
                result = work()
                if not name.startswith("ask "):
                    self.results[name] = result
            except Exception as fault:  # a part that cannot be read must not cost the rest
                self.faults.append("%s: %s: %s" % (name, type(fault).__name__, fault))

        thread = threading.Thread(target=body, daemon=True)
        self.threads.append((name, thread, self.deadline + more))
        thread.start()

    def finish(self) -> Json:
        """The results that came in time."""
        for name, thread, deadline in sorted(self.threads, key=lambda each: each[2]):
            thread.join(max(0.0, deadline + 0.4 - time.monotonic()))
            if thread.is_alive():
                self.faults.append("%s: no answer in time" % name)
        return dict(self.results)


def _same_for_all(raw: Json, jobs: Jobs, inside: Optional[Json]) -> None:
    raw["env"] = read_environment()
    raw["processors"] = read_processors()
    if inside is None:
        jobs.start("python", read_python)
    else:
        wish = inside
        raw["names"] = read_names()
        jobs.start("shm_refused", lambda: try_shared_memory(Files()) if sys.platform == "linux" else "")
        jobs.start("inside", lambda: ask_inside(wish), more=float(wish.get("limit") or 60.0))


def read_names() -> List[str]:
    """What this user and this machine are called, so that it can be taken out of what is passed on."""
    found = [os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER", "HOSTNAME", "COMPUTERNAME")]
    try:
        import socket

        found.append(socket.gethostname())
        found.append(os.path.basename(os.path.expanduser("~")))
        import pwd

        found.append(pwd.getpwuid(os.getuid()).pw_name)
    except (ImportError, KeyError, OSError, AttributeError):
        pass
    return sorted({name for name in found if name})


def read_linux(files: Files, tools: Tools, use_tools: bool, inside: Optional[Json] = None) -> Json:
    """The raw document of a Linux machine."""
    raw: Json = {"format": FORMAT, "os": "linux"}
    jobs = Jobs(tools.deadline)
    raw["files"] = {path: text for path, text in ((path, files.text(path)) for path in FILES) if text is not None}
    raw["marks"] = [path for path in MARKS if files.exists(path)]
    raw["mounts"] = [
        line[:2000]
        for line in (files.text("/proc/self/mountinfo", 1 << 20) or "").splitlines()
        if line.split(" ")[4:5] and line.split(" ")[4] in ("/", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/shm")
    ][:40]
    init = (files.data("/proc/1/environ", 1 << 16) or b"").split(b"\0")
    raw["init_container"] = next((part[10:].decode("utf-8", "replace") for part in init if part.startswith(b"container=")), "")
    raw["machine"] = os.uname().machine if hasattr(os, "uname") else ""
    raw["release"] = files.word("/proc/sys/kernel/osrelease") or (os.uname().release if files.live else "")
    raw["libc"] = read_libc()
    raw["secure_boot"] = read_secure_boot(files)
    raw["shm_bytes"] = read_shared_memory(files)
    raw["limits"] = read_limits(files)
    raw["identity"] = read_identity(files)
    raw["units"] = {unit: any(files.exists(folder + "/" + unit + ".service") for folder in _UNIT_FOLDERS) for unit in UNITS}
    raw["pci"] = pci = read_pci(files)
    _same_for_all(raw, jobs, inside)
    contained = bool({"/.dockerenv", "/run/.containerenv"} & set(raw["marks"])) or bool(raw["init_container"])
    # Files of a driver that hangs may hang too, so they are read aside.
    jobs.start("modules", lambda: read_modules(files))
    jobs.start("drm", lambda: read_drm(files))
    jobs.start("kfd", lambda: read_kfd(files))
    jobs.start("nvidia", lambda: read_nvidia(files))
    jobs.start("nodes", lambda: read_nodes(files, contained))
    jobs.start("libraries", lambda: read_libraries(files))
    jobs.start("toolkits", lambda: read_toolkits(files))
    jobs.start("library_path", lambda: read_library_path(files))
    jobs.start("settings", lambda: read_settings(files))
    jobs.start("packages", lambda: read_packages(files))
    jobs.start("kernel_log", lambda: read_kernel_log(files))
    if use_tools:
        _ask_linux_tools(raw, pci, files, tools, jobs)
    raw.update(jobs.finish())
    raw["tools"] = dict(tools.answers)
    raw["faults"] = list(jobs.faults)
    return raw


def _ask_linux_tools(raw: Json, pci: List[Json], files: Files, tools: Tools, jobs: Jobs) -> None:
    vendors = {device["vendor"] for device in pci}
    if tools.which("nvidia-smi"):
        jobs.start("ask nvidia-smi for devices", lambda: ask_nvidia(tools))
        jobs.start("ask nvidia-smi", lambda: ask_header(tools))
    for command in _VENDOR_TOOLS:
        if tools.which(command[0]):
            jobs.start("ask " + command[0], functools.partial(tools.ask, *command))
    if any(raw["units"].values()) and "/run/systemd/system" in raw["marks"]:
        units = [unit for unit in UNITS if raw["units"][unit]]
        jobs.start("ask systemctl", lambda: tools.ask("systemctl", "show", "--property=Id,ActiveState", *units, limit=3.0))
        if "nvidia-fabricmanager" in units:
            # `cat` leaves the host's name and the dates away.
            journal = ("-u", "nvidia-fabricmanager", "-n", "15", "--no-pager", "-o", "cat")
            jobs.start("ask journalctl", lambda: tools.ask("journalctl", *journal, limit=3.0))
    if not raw["libc"] and tools.which("ldd"):
        jobs.start("ask ldd", lambda: tools.ask("ldd", "--version", limit=3.0))
    if "0x10de" in vendors and not files.exists("/sys/module/nvidia"):
        jobs.start("ask modinfo", lambda: tools.ask("modinfo", "nvidia", limit=3.0))
    if vendors & {"0x10de", "0x1002", "0x8086"} and not files.exists("/var/lib/dpkg/status") and tools.which("rpm"):
        # Its database has a format of its own; only asked where there is something to be driven, since it takes its time.
        jobs.start("ask rpm", lambda: tools.ask("rpm", "-qa", "--qf", r"%{NAME}\t%{VERSION}-%{RELEASE}\n", limit=5.0))
    if "microsoft" in raw["release"].lower() and files.exists("/dev/dxg"):
        # The devices of the Windows side; /mnt/c is only the default place.
        shell = tools.which("powershell.exe") or "/mnt/c/Windows/System32/WindowsPowerShell/v1.0/powershell.exe"
        jobs.start("ask powershell", lambda: _ask_shell(tools, shell))


def _ask_shell(tools: Tools, shell: str) -> None:
    tools.ask("powershell", *shell_arguments(), limit=7.0, path=shell, key="powershell")


def shell_arguments() -> List[str]:
    """The arguments that make PowerShell run the script; encoded, so that no quoting on the way can spoil it."""
    import base64

    code = base64.b64encode(POWERSHELL.strip().encode("utf-16-le")).decode("ascii")
    return ["-NoProfile", "-NonInteractive", "-EncodedCommand", code]


def read_windows(files: Files, tools: Tools, use_tools: bool, inside: Optional[Json] = None) -> Json:
    """The raw document of a Windows machine."""
    raw: Json = {"format": FORMAT, "os": "windows"}
    jobs = Jobs(tools.deadline)
    version = getattr(sys, "getwindowsversion", None)
    if version is not None:
        found = version()
        # The first three numbers may be those of a compatibility mode; platform_version are the real ones.
        raw["release"] = "%d.%d.%d" % tuple(getattr(found, "platform_version", found[:3])[:3])
        raw["product_type"] = getattr(found, "product_type", None)
    raw["machine"] = os.environ.get("PROCESSOR_ARCHITEW6432") or os.environ.get("PROCESSOR_ARCHITECTURE", "")
    _same_for_all(raw, jobs, inside)
    jobs.start("registry", read_registry)
    if use_tools:
        shell = (
            tools.which("powershell.exe") or _windows_tool("WindowsPowerShell\\v1.0\\powershell.exe") or tools.which("pwsh.exe")
        )
        if shell:
            jobs.start("ask powershell", lambda: _ask_shell(tools, str(shell)))
        smi = tools.which("nvidia-smi.exe") or _windows_tool("nvidia-smi.exe")
        if smi:
            original = tools.which
            tools.which = lambda name: smi if name == "nvidia-smi" else original(name)
            jobs.start("ask nvidia-smi for devices", lambda: ask_nvidia(tools))
            jobs.start("ask nvidia-smi", lambda: ask_header(tools))
    raw.update(jobs.finish())
    raw["tools"] = dict(tools.answers)
    raw["faults"] = list(jobs.faults)
    return raw


def _windows_tool(name: str) -> Optional[str]:
    path = os.path.join(os.environ.get("SystemRoot", "C:\\Windows"), "System32", name)
    return path if os.path.exists(path) else None


def read_registry() -> Json:
    """Windows' display class as the registry has it, for where PowerShell is missing or does not answer."""
    import winreg  # only on Windows

    registry: Any = winreg
    adapters = []
    base = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
    for number in range(32):
        try:
            with registry.OpenKey(registry.HKEY_LOCAL_MACHINE, base + "\\%04d" % number) as key:
                entry: Json = {}
                for name, short in (
                    ("DriverDesc", "DriverDesc"),
                    ("DriverVersion", "DriverVersion"),
                    ("MatchingDeviceId", "MatchingDeviceId"),
                    ("HardwareInformation.qwMemorySize", "Memory"),
                ):
                    try:
                        value = registry.QueryValueEx(key, name)[0]
                    except OSError:
                        continue
                    entry[short] = int.from_bytes(value, "little") if isinstance(value, bytes) else value
                if entry:
                    adapters.append(entry)
        except OSError:
            continue
    name, secure = "", None
    try:
        with registry.OpenKey(registry.HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Windows NT\CurrentVersion") as key:
            name = str(registry.QueryValueEx(key, "ProductName")[0])
    except OSError:
        pass
    try:
        with registry.OpenKey(registry.HKEY_LOCAL_MACHINE, r"SYSTEM\CurrentControlSet\Control\SecureBoot\State") as key:
            secure = registry.QueryValueEx(key, "UEFISecureBootEnabled")[0]
    except OSError:
        pass
    found: Json = {"adapters": adapters, "product_name": name, "secure_boot": secure}
    for word, place, value_name in (
        ("long_paths", r"SYSTEM\CurrentControlSet\Control\FileSystem", "LongPathsEnabled"),
        ("vc_runtime", r"SOFTWARE\Microsoft\VisualStudio\14.0\VC\Runtimes\X64", "Version"),
    ):
        try:
            with registry.OpenKey(registry.HKEY_LOCAL_MACHINE, place) as key:
                found[word] = registry.QueryValueEx(key, value_name)[0]
        except OSError:
            found[word] = None
    return found


def read_macos(files: Files, tools: Tools, use_tools: bool, inside: Optional[Json] = None) -> Json:
    """The raw document of a Mac."""
    raw: Json = {"format": FORMAT, "os": "macos"}
    jobs = Jobs(tools.deadline)
    raw["machine"] = os.uname().machine if hasattr(os, "uname") else ""
    raw["release"] = os.uname().release if hasattr(os, "uname") else ""
    _same_for_all(raw, jobs, inside)
    raw["identity"] = read_identity(files)
    if use_tools:
        # `mini` leaves out serial numbers.
        displays = ("-json", "-detailLevel", "mini", "SPDisplaysDataType", "SPHardwareDataType")
        jobs.start("ask system_profiler", lambda: tools.ask("system_profiler", *displays))
        jobs.start("ask sw_vers", lambda: tools.ask("sw_vers"))
        names = ("hw.memsize", "hw.optional.arm64", "machdep.cpu.brand_string", "sysctl.proc_translated", "kern.hv_vmm_present")
        jobs.start("ask sysctl", lambda: tools.ask("sysctl", *names))
    raw.update(jobs.finish())
    raw["tools"] = dict(tools.answers)
    raw["faults"] = list(jobs.faults)
    return raw


def read(
    root: str = "/",
    run: Optional[RunTool] = None,
    which: Optional[Callable[[str], Optional[str]]] = None,
    seconds: float = DEADLINE,
    system: str = "",
    inside: Optional[Json] = None,
) -> Json:
    """The raw document of this machine, or of the file tree below `root`.

    A tree is read without tools unless `run` says how to call them. `inside` asks for a look into a Python environment too
    (ask_inside), which imports what is installed there and takes its time.
    """
    files = Files(root)
    tools = Tools(run or run_tool, which or find_tool, time.monotonic() + seconds)
    system = system or {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")
    section = {"macos": read_macos, "windows": read_windows}.get(system, read_linux)
    raw = section(files, tools, files.live or run is not None, inside)
    told = raw.get("inside")
    if isinstance(told, dict) and isinstance(told.get("python"), dict):
        raw["python"] = told.pop("python")
    elif inside is not None:
        raw["python"] = read_python()
    return raw


def main() -> None:
    """Prints the raw document behind its mark, and ends at once, whatever thread still waits for a driver.

    `--inside SECONDS` is the look into the Python that runs this; an argument that is a JSON table is what `read` is to look
    at besides the machine.
    """
    arguments = sys.argv[1:]
    if arguments[:1] == ["--inside"]:
        # The folder of this file, or the current one, belongs to nobody's environment.
        del sys.path[:1]
        look_inside(float(arguments[1]))
        sys.stdout.flush()
        os._exit(0)
    inside = json.loads(arguments[0]) if arguments else None
    text = MARK + json.dumps(read(inside=inside), ensure_ascii=True)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
