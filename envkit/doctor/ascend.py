"""Causes that lie in Ascend's stack: CANN, torch_npu and what goes between."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envkit.doctor.case import Case
from envkit.model import Dotted, Finding, Severity, dotted
from envkit.resolve.target import card_name

_TABLE = "Ascend/pytorch, table of compatibility: https://github.com/Ascend/pytorch/blob/master/COMPATIBILITY.en.md"
_README = "Ascend/pytorch: installation: https://github.com/Ascend/pytorch"
_NNAL = "vllm-project/vllm-ascend issue #152: https://github.com/vllm-project/vllm-ascend/issues/152"
_PAIR = "triton-lang/triton-ascend issue #326: https://github.com/triton-lang/triton-ascend/issues/326"
_PIN = "vllm-project/vllm-ascend issue #340: https://github.com/vllm-project/vllm-ascend/issues/340"
_SOC = "Ascend/pytorch issue #57: https://github.com/Ascend/pytorch/issues/57"

_SET_ENV = "source /usr/local/Ascend/ascend-toolkit/set_env.sh"
_NOT_FOUND = r"(?:cannot open shared object file|no such file|not found|找不到|无法打开)"
# Libraries that set_env.sh of CANN's toolkit brings onto the path.
_CANN_LIBS = (
    r"lib(?:hccl|ascendcl|acl_op_compiler|acl_tdt_channel|acl_dvpp\w*|acl_cblas|ge_runner|ge_compiler|ge_common\w*"
    r"|graph|graph_base|msprofiler|profapi|runtime"
    r"|opapi\w*|nnopbase|register|platform|error_manager|aoe_tuning|alog|mmpa|c_sec|ascend_protobuf|cce_aicore"
    r"|eager_style_graph_builder\w*|es_math)\.so"
)
_DRIVER_LIBS = r"lib(?:ascend_hal|drvdsmi_host|dcmi|tsdclient|ascend_trace|slog|drv\w*)\.so"
_CANN_MODULES = r"No module named ['\"]?(?:tbe|te|acl|auto_tune|op_gen|opc_tool|hccl|asc_op_compile_base|ascendc_compiler)\b"


def _about(case: Case) -> bool:
    """Whether the report is about Ascend at all."""
    if case.cards("huawei") or any(name in case.packages for name in ("torch-npu", "vllm-ascend", "mindspore", "triton-ascend")):
        return True
    return (
        case.hit(r"torch_npu|\bascend\b|\bcann\b|npu-smi|\bdavinci|libhccl|libatb|_C_ascend|aclnn|mindspore") is not None
        or "npu" in case.request.lower()
    )


def _torch_npu(case: Case) -> str:
    version = case.packages.get("torch-npu", "")
    if not version and (hit := case.hit(r"torch[-_]npu(?:\s+|==|\W+version\W+)v?(\d+\.\d+[\w.]*)")):
        version = hit[1]
    if not version and (found := re.search(r"torch[-_]npu==(\d+\.\d+[\w.]*)", case.request)):
        version = found[1]
    return version


_CANN_NUMBER = r"(\d+\.\d+(?:\.(?:\d+|RC\d+))?(?:[.-]?(?:alpha|beta|rc)\.?\d+)*)"


def _cann(case: Case) -> tuple[str, str]:
    """The CANN of the machine, and where that is told."""
    for facts in (case.machine.driver, case.machine.drivers.get("huawei")):
        if facts is not None and facts.toolkit and (found := re.search(_CANN_NUMBER, facts.toolkit, re.IGNORECASE)):
            return found[1], f"machine.driver.toolkit: {facts.toolkit}"
    for name, text in case.machine.system_packages.items():
        if re.search(r"cann|ascend-toolkit", name, re.IGNORECASE) and (found := re.search(_CANN_NUMBER, text, re.IGNORECASE)):
            return found[1], f"machine.system_packages: {name} {text}"
    hit = case.hit(
        rf"\bCANN[-_ :=v]*(?:version\W+)?{_CANN_NUMBER}|ascend-toolkit/{_CANN_NUMBER}|cann[-_]{_CANN_NUMBER}"
    ) or case.hit(rf"^\s*(?:version|Version)={_CANN_NUMBER}", "ascend", "cann", "toolkit")
    if hit:
        return next(group for group in hit.match.groups() if group), str(hit)
    found = re.search(rf"\bcann[-_ :=v]*{_CANN_NUMBER}", case.request, re.IGNORECASE)
    return (found[1], f"request: {found[0]}") if found else ("", "")


def _line(text: str) -> tuple[int, int] | None:
    """CANN's release line: 8.3 of 8.3.RC1, 9.0 of 9.0.0-beta.2."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def _paired(case: Case, version: str) -> list[str]:
    """The CANN releases that a torch_npu was published with."""
    tags = {row.tag: str(row.version) for row in case.matrix.backends["npu"].releases}
    found = {
        tags[build.tag]
        for build in case.matrix.frameworks["torch"].builds
        if build.published is True
        and build.tag in tags
        and (pin := build.packages.get("torch-npu")) is not None
        and pin.version == version
    }
    return sorted(found, key=lambda text: Dotted(text).key)


def _fitting(case: Case, cann: str, torch: str) -> str:
    """The newest torch_npu that was published with a CANN, of the same torch where one is told."""
    tags = {row.tag: str(row.version) for row in case.matrix.backends["npu"].releases}
    found = [
        (Dotted(build.release).key, len(pin.version), pin.version)
        for build in case.matrix.frameworks["torch"].builds
        if build.published is True
        and build.tag in tags
        and _line(tags[build.tag]) == _line(cann)
        and (pin := build.packages.get("torch-npu")) is not None
        and (not torch or build.release == torch)
    ]
    return max(found, default=((), 0, ""))[2]


def npu_cann_env_not_sourced(case: Case) -> Iterator[Finding]:
    """CANN's libraries, or those of its driver, are not on the path of this process."""
    # "aclnnX not in libopapi.so, or libopapi.so not found" is about a function, and CANN is there.
    said = case.hit(rf"^(?!.*not in libopapi).*{_CANN_LIBS}.*{_NOT_FOUND}")
    driver = case.hit(rf"{_DRIVER_LIBS}\S*[:'\" ].*{_NOT_FOUND}")
    module = case.hit(_CANN_MODULES)
    asks = case.hit(
        r"(?:please |you (?:should|need to) )?source .*Ascend\S*set_env\.sh|(?:ASCEND_(?:HOME_PATH|OPP_PATH"
        r"|TOOLKIT_HOME|AICPU_PATH)|CANN).*(?:is )?not (?:set|found|configured|sourced)"
    )
    failed = case.hit(r"failed to load the backend extension: torch_npu")
    if case.hit(r"libatb\.so|nnal") is not None and not (said or driver or module):
        return
    if not (said or driver or module or asks or failed):
        return
    if failed and not (said or driver or module or asks) and case.hit(r"undefined symbol|has no attribute|libatb") is not None:
        return
    inside = driver is not None and said is None
    evidence = [str(hit) for hit in (said, driver, module, asks, failed) if hit]
    evidence += ["env.ASCEND_HOME_PATH: not set"] if case.facts.env and "ASCEND_HOME_PATH" not in case.facts.env else []
    yield Finding(
        cause="npu-cann-env-not-sourced",
        message=(
            "the driver's libraries under /usr/local/Ascend/driver are not on this process's path"
            if inside
            else "CANN is not on this process's path: its set_env.sh was not sourced, or it is not installed"
        ),
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Pass the driver's folder into the container and keep it on LD_LIBRARY_PATH; on a host, install the driver."
            if inside
            else (
                "Source CANN's set_env.sh in the shell or service that runs Python (and put it into the profile); install "
                "CANN where that file is missing."
            )
        ),
        commands=(
            (
                "docker run -v /usr/local/Ascend/driver:/usr/local/Ascend/driver:ro ...",
                "export LD_LIBRARY_PATH=/usr/local/Ascend/driver/lib64:$LD_LIBRARY_PATH",
            )
            if inside
            else (_SET_ENV,)
        ),
        sources=(_README, "vllm-project/vllm-ascend issue #262: https://github.com/vllm-project/vllm-ascend/issues/262"),
        likelihood=93 if said or driver else 86 if module or asks else 66,
    )


def npu_nnal_missing(case: Case) -> Iterator[Finding]:
    """The acceleration library (NNAL, ATB) is not installed, or not on the path."""
    said = case.hit(
        rf"libatb\S*\.so\S*[:'\" ].*{_NOT_FOUND}|(?:nnal|\batb\b).*(?:not (?:installed|found|sourced)|missing)"
        r"|ATB_HOME_PATH.*(?:not set|unset|None)|check that the nnal package is installed|source .*nnal/atb/set_env\.sh"
        r"|libtbe_adapter\.so\S*: cannot open|libasdops\S*: cannot open"
    )
    if said is None:
        return
    yield Finding(
        cause="npu-nnal-missing",
        message="NNAL with its library ATB, which this torch_npu loads, is not installed or not on the path",
        evidence=(str(said),),
        remedy="Install the NNAL package of the same release as CANN and source its set_env.sh after that of CANN.",
        commands=("./Ascend-cann-nnal_<version>_linux-$(uname -m).run --install", "source /usr/local/Ascend/nnal/atb/set_env.sh"),
        sources=(_NNAL,),
        likelihood=93,
    )


# Symbols of torch itself, mangled; those of CANN are plain C (aclrtX, MsprofX, HcclX) or of ATB.
_TORCH_SYMBOL = r"undefined symbol: _ZNK?(?:2at|3c10|5torch|5c10d|7c10_npu|6at_npu)"
_CANN_SYMBOL = (
    r"undefined symbol:? ?(?:acl\w+|Acl\w+|aclnn\w+|Msprof\w+|Hccl\w+|rt[A-Z]\w+|ge\w*"
    r"|GE\w+|Adx\w+|_ZN2ge\S+|_ZN3atb\S+|_ZN3Mki\S+|_ZN4domi\S+|_ZN4hccl\S+)"
)


def npu_torch_npu_cann_mismatch(case: Case) -> Iterator[Finding]:
    """torch_npu was built for another CANN than the one that is installed."""
    if not _about(case):
        return
    symbol = case.hit(_CANN_SYMBOL)
    plain = (
        case.hit(r"undefined symbol")
        if case.hit(r"torch_npu|libtorch_npu|libop_plugin|libhccl|libascendcl|aclrt|Ascend/") or _torch_npu(case)
        else None
    )
    if plain and case.hit(_TORCH_SYMBOL) and symbol is None:
        plain = None
    absent = case.hit(
        r"aclnn\w+.*not in libopapi|libopapi\.so not found|GetWorkspaceSize not in|(?:op|operator) \w+ (?:is )?not (?:found"
        r"|supported) in (?:libopapi|CANN)"
    )
    told = case.hit(
        r"\bCANN\b.{0,80}(?:mismatch|not match|incompatible|不匹配|不兼容|不配套)"
        r"|(?:mismatch|incompatible|不匹配|不兼容).{0,80}\bCANN\b"
    )
    version, (cann, where) = _torch_npu(case), _cann(case)
    paired = _paired(case, version) if version else []
    apart = bool(cann and paired) and _line(cann) not in {_line(each) for each in paired}
    failing = symbol or plain or absent or told
    error = case.hit(
        r"error code is (?:500001|107\d+|507\d+)|EH9999|EE9999|ERR00100|Inner Error|segmentation fault|core dumped|aborted"
    )
    if failing is None and not apart:
        return
    if failing is None and case.torch.available:
        return
    fitting = _fitting(case, cann, str(case.torch.release or dotted(version) or "")) or _fitting(case, cann, "") if cann else ""
    evidence = [str(hit) for hit in (symbol or plain, absent, told, error) if hit]
    evidence += [where] if where else []
    evidence += [f"python.packages: torch-npu {version}"] if version else []
    pair = f"torch_npu {version} was published with CANN {' and '.join(paired)}; CANN {cann} is installed" if apart else ""
    yield Finding(
        cause="npu-torch-npu-cann-mismatch",
        message=pair or "torch_npu was built for another CANN than the one that is installed",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            (
                f"Install torch_npu {fitting}, which was published with CANN {cann}"
                if fitting
                else "Install the torch_npu that was published with this CANN"
            )
            + (
                f", or CANN {paired[-1]} for the torch_npu that is there."
                if paired
                else ", or the CANN that this torch_npu was built for."
            )
        ),
        commands=(f"python -m pip install torch-npu=={fitting}",)
        if fitting
        else ("cat /usr/local/Ascend/ascend-toolkit/latest/version.cfg",),
        sources=(_TABLE, _PAIR),
        severity=Severity.ERROR if failing or error or case.torch.available is False else Severity.WARNING,
        likelihood=91 if symbol or told or (plain and apart) else 86 if absent else 84 if plain or (apart and error) else 76,
    )


def npu_torch_npu_mismatch(case: Case) -> Iterator[Finding]:
    """torch_npu is not of the build that the project, or the torch beside it, goes with."""
    if not _about(case):
        return
    attribute = case.hit(
        r"(?:module )?['\"]?torch_npu\S*['\"]? has no attribute ['\"](\w+)|torch(?:\.ops)?\.(?:npu"
        r"|_C_ascend)\S* .*has no attribute|'_OpNamespace' '(?:npu|_C_ascend|atb)'.*has no attribute"
    )
    imported = case.hit(r"cannot import name ['\"]\w+['\"] from ['\"]torch_npu")
    symbol = case.hit(_TORCH_SYMBOL) if case.hit(r"torch_npu|\bnpu\b|c10_npu|at_npu") or _torch_npu(case) else None
    pinned = case.hit(
        r"(?:vllm[-_]ascend|mindspeed\S*|\S+) (?:\S+ )?(?:requires|depends on) torch[-_]npu|(?:requirement"
        r"|distribution found for) torch[-_]npu=="
    )
    lacks = case.hit(r"(?:torch[-_]npu|torch_npu\.).*(?:缺少|missing (?:function|attribute|op))")
    version, torch = _torch_npu(case), case.torch.version or case.packages.get("torch", "")
    mine, theirs = re.match(r"\d+\.\d+(?:\.\d+)?", version), re.match(r"\d+\.\d+(?:\.\d+)?", torch)
    apart = bool(mine and theirs) and mine is not None and theirs is not None and mine[0] != theirs[0]
    if not (attribute or imported or symbol or pinned or lacks or apart):
        return
    if not (attribute or imported or symbol or pinned or lacks) and case.torch.available:
        return
    if case.hit(_CANN_SYMBOL) and not (attribute or imported):
        return
    evidence = [str(hit) for hit in (attribute, imported, symbol, pinned, lacks) if hit]
    evidence += [f"python.packages: torch-npu {version}"] if version else []
    evidence += [f"torch.version: {torch}"] if torch else []
    project = next(
        (f"{name} {case.packages[name]}" for name in ("vllm-ascend", "mindspeed", "triton-ascend") if name in case.packages),
        "the project",
    )
    what = (
        f"torch_npu {version} goes with torch {mine[0] if mine else ''}; torch {torch} is installed"
        if apart
        else f"torch_npu {version or ''} is not the build that {project} was made for".replace("  ", " ")
    )
    yield Finding(
        cause="npu-torch-npu-mismatch",
        message=what,
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Install exactly the torch and torch_npu that the project's table of versions names, post-release included, "
            "with the CANN beside them."
        ),
        commands=(
            "python -m pip list | grep -iE 'torch|vllm|mindspeed'",
            *((f"python -m pip install torch=={mine[0]} torch-npu=={version}",) if apart and mine else ()),
        ),
        sources=(_PIN, _TABLE),
        likelihood=92 if attribute or imported else 88 if symbol or lacks else 82 if apart else 74,
    )


def npu_soc_unsupported(case: Case) -> Iterator[Finding]:
    """The software does not know the chip."""
    said = case.hit(
        r"unsupported soc[ _]?version|can ?not support soc[ _]?version|soc[ _]?version\S* .*(?:does|is) not support"
        r"|soc ?ver\w+ .*does not match the current device"
        r"|(?:init runtime )?platform info failed, SocVersion|unsupported (?:device|chip|npu)\W+\w*(?:ascend|910|310"
        r"|950)|AscendSocVersion\.UNDEFINED|invalid soc[ _]?version"
        r"|soc error|not support(?:ed)? (?:on )?(?:this )?soc|不支持.*(?:soc|芯片)"
    )
    version, (cann, where) = _torch_npu(case), _cann(case)
    card = next((card for card in case.cards("huawei") if card.arch), None)
    unknown = _not_listed(case, card.arch, cann) if card is not None and cann else ""
    if said is None and not (unknown and case.torch.available is not True):
        return
    chip = re.search(r"Ascend\s?\w+", said.line, re.IGNORECASE) if said else None
    name = card_name(card) if card else chip[0] if chip else "this chip"
    evidence = [str(said)] if said else []
    evidence += [f"python.packages: torch-npu {version}"] if version else []
    evidence += [where] if where else []
    evidence += [unknown] if unknown else []
    evidence += [f"machine.gpu: {card_name(card)}"] if card else []
    yield Finding(
        cause="npu-soc-unsupported",
        message=f"torch_npu {version or ''} and CANN {cann or ''} do not know {name}".replace("  ", " "),
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Install a torch_npu and a CANN that list the chip, with CANN's kernel package for it; where none does, the chip is "
            "left to other tools."
        ),
        commands=("npu-smi info", "cat /usr/local/Ascend/ascend-toolkit/latest/version.cfg"),
        sources=(_SOC, _TABLE),
        likelihood=91 if said else 80,
    )


def _not_listed(case: Case, arch: str, cann: str) -> str:
    """What tells that no release of a CANN line lists a chip; "" where one does or nothing is known."""
    rows = [
        row for row in case.matrix.backends["npu"].releases if _line(str(row.version)) == _line(cann) and row.archs is not None
    ]
    if not rows or any(arch in (row.archs or ()) for row in rows):
        return ""
    return f"CANN {rows[-1].version} lists {', '.join(rows[-1].archs or ())}"


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    npu_cann_env_not_sourced,
    npu_nnal_missing,
    npu_torch_npu_cann_mismatch,
    npu_torch_npu_mismatch,
    npu_soc_unsupported,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "npu-cann-env-not-sourced": ("npu-torch-npu-cann-mismatch", "npu-torch-npu-mismatch"),
    "npu-nnal-missing": ("npu-torch-npu-cann-mismatch", "npu-torch-npu-mismatch", "npu-cann-env-not-sourced"),
    "npu-soc-unsupported": ("npu-torch-npu-cann-mismatch",),
}
