"""Causes that lie in what of NVIDIA's cards a process may use: MIG instances, and the variable that hides cards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envkit.doctor import commands
from envkit.doctor.case import Case, Hit
from envkit.doctor.nvidia import works
from envkit.model import Finding

_MIG = "NVIDIA: MIG user guide: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html"
_VISIBLE = "NVIDIA: CUDA environment variables: https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars"


# ---- MIG ---------------------------------------------------------------------------------------------------------

_MIG_ON = (
    r"\|\s*Enabled\*?\s*\|\s*$|mig(?:\.| )mode.*enabled|^\s*current\s*:\s*enabled"
    r"|mig (?:mode )?(?:is )?(?:enabled|on)\b|enabled mig mode|MIG M\.\W+Enabled"
)
_MIG_LINE = r"^\s*MIG\s+\S+\s+Device\s+\d+\s*:?|\(UUID:\s*MIG-"
_NO_MIG = r"no mig devices? found|no (?:mig|gpu|compute) instances? found|no mig-?enabled|no gpu instances"
_FAILS = (
    r"no cuda-capable device|no cuda gpus are available|cuda_error_no_device|cudaErrorNoDevice"
    r"|invalid device ordinal|cudaErrorInvalidDevice"
    r"|invalid device id|device >= 0 && device < num_gpus|cuda_error_invalid_device|device index assert|error:? (?:100"
    r"|101)\b|no devices? (?:were )?found"
    r"|internal assert failed|cuda error|cuda initialization|not (?:find|found|detected).*gpu"
    r"|torch not .*cuda|is_available.*false|^false$"
)


def _mig_lines(case: Case) -> list[Hit]:
    return [hit for hit in case.hits(_MIG_LINE) if "request" not in hit.place]


def _failed(case: Case) -> Hit | None:
    return None if case.torch.available else case.hit(_FAILS)


def mig_no_instance(case: Case) -> Iterator[Finding]:
    """MIG mode is on and no instance was made, so CUDA sees no device."""
    on = case.hit(_MIG_ON, "nvidia-smi", "mig", "error") or case.hit(r"^\W*(?:.*,\s*)?enabled\W*$", "mig.mode", "mig_mode")
    none = case.hit(_NO_MIG)
    lines = _mig_lines(case)
    listed = list(case.hits(r"^\s*GPU \d+:", "nvidia-smi -L")) or list(case.hits(r"^\s*GPU \d+: .*UUID", "nvidia-smi"))
    failed = _failed(case) or case.torch.available is False or case.torch.device_count == 0
    if case.torch.available or (lines and none is None) or (on is None and none is None):
        return
    if none is None and not failed and not listed:
        return
    if none and on is None and "mig" not in f"{none.line} {none.place}".lower():
        return
    said = _failed(case)
    bare = listed[0] if listed and not lines else None
    yield Finding(
        cause="mig-no-instance",
        message="MIG mode is on, and there is no instance that a process could use",
        evidence=tuple(str(hit) for hit in (on, none, bare, said) if hit),
        remedy="Make GPU instances with compute instances in them, or turn MIG mode off to use the whole card.",
        commands=("sudo nvidia-smi mig -lgip", "sudo nvidia-smi mig -cgi PROFILE -C", "sudo nvidia-smi -mig 0"),
        sources=(_MIG,),
        likelihood=91 if none else 88,
    )


def mig_slice_not_selected(case: Case) -> Iterator[Finding]:
    """There are MIG instances and the process has chosen none; a process can use one."""
    lines = _mig_lines(case)
    value, _ = visible(case)
    failed = _failed(case)
    if (
        not lines
        or not (failed or case.torch.available is False)
        or (value and re.match(r"MIG-", value) and "," not in value)
        or _unreadable(case)
    ):
        return
    several = value and value.count("MIG-") > 1
    yield Finding(
        cause="mig-slice-not-selected",
        message="several MIG instances were given to one process, which can use one"
        if several
        else "the cards are cut into MIG instances and the process has chosen none of them",
        evidence=(
            *(str(hit) for hit in lines[:2]),
            str(failed or "torch.available: false"),
            *((f"CUDA_VISIBLE_DEVICES: {value}",) if value else ()),
        ),
        remedy=(
            "Give each process one instance: set CUDA_VISIBLE_DEVICES to its UUID before the program starts. Whoever needs whole "
            "cards, or several in one process, turns MIG mode off."
        ),
        commands=("nvidia-smi -L", commands.export(case, "CUDA_VISIBLE_DEVICES", "MIG-UUID")),
        sources=(_MIG,),
        likelihood=89,
    )


def _unreadable(case: Case) -> Hit | None:
    return case.hit(
        r"invalid literal for int\(\).*['\"](?:MIG|GPU)-|could not convert string.*(?:MIG|GPU)-"
        r"|invalid (?:decimal|syntax|device ?id|device string|gpu id).*MIG-"
        r"|(?:strconv\.\w+|parse(?:int)?|atoi|stoi|number ?format|keyerror|valueerror|typeerror|parsing).*\b(?:MIG|GPU)-[0-9a-f]"
        r"|\bMIG-[0-9a-f-]+\W.*(?:not a valid|is not valid|must be (?:an )?int|invalid|cannot be parsed|not an integer)"
    )


def app_cannot_parse_mig_uuid(case: Case) -> Iterator[Finding]:
    """The environment is right, and the application reads the variable's UUID as a number."""
    said = _unreadable(case)
    value, line = visible(case)
    if said is None and value and re.match(r"(?:MIG|GPU)-", value):
        said = case.hit(
            r"invalid literal for int\(\)|invalid decimal literal|SyntaxError: invalid"
            r"|could not convert string to|ast\.literal_eval|ValueError.*device"
        )
    if said is None:
        return
    mig = "MIG" in f"{said} {value}"
    yield Finding(
        cause="app-cannot-parse-mig-uuid",
        message=(
            f"the application reads CUDA_VISIBLE_DEVICES as numbers, not the UUID of a {'MIG instance' if mig else 'card'}; "
            "the environment is right"
        ),
        evidence=(str(said), *((line,) if line else ())),
        remedy=(
            "Update the application to a release that takes UUIDs. Until then give it an index"
            + (
                " (0 is the first instance of the first card that the process may see), or hand the instance over "
                "through the container runtime."
                if mig
                else "."
            )
        ),
        sources=("vllm-project/vllm issue 41848: https://github.com/vllm-project/vllm/issues/41848", _MIG),
        likelihood=94,
    )


# ---- the variable that hides cards -------------------------------------------------------------------------------

_SET = re.compile(
    r"CUDA_VISIBLE_DEVICES[\"']?\s*\]?\s*(?:=|:|,\s*(?=[\"']))\s*(?P<quote>[\"']?)(?P<value>[^\"';&|\s)]*)(?P=quote)"
)


def visible(case: Case) -> tuple[str | None, str]:
    """What CUDA_VISIBLE_DEVICES is for the failing process, and the line that tells it; None where it is not known to be set."""
    value = case.facts.env.get("CUDA_VISIBLE_DEVICES")
    if value is not None:
        return value, f"env: CUDA_VISIBLE_DEVICES={value}"
    # printenv and echo print nothing for a variable that is not set.
    printed = case.variable("CUDA_VISIBLE_DEVICES")
    if printed and "\n" not in printed:
        found = _SET.search(printed)
        return (found["value"] if found else printed), f"CUDA_VISIBLE_DEVICES: {printed}"
    for place, text in (("request", case.request), *case.facts.evidence.items(), *((p, p) for p in case.facts.evidence)):
        if found := _SET.search(text):
            line = next((each for each in text.splitlines() if "CUDA_VISIBLE_DEVICES" in each), text)
            return found["value"], f"{place}: {line.strip()}"
    return None, ""


_HIDDEN = (
    r"no cuda gpus are available|no cuda-capable device is detected|cuda_error_no_device"
    r"|cudaErrorNoDevice|error:? (?:38|100)\b|invalid device ordinal|cudaErrorInvalidDevice"
    r"|no gpus? (?:found|available|detected)|is_available.*false"
)


def _count(case: Case) -> tuple[int | None, bool]:
    """How many cards there are, and whether a tool listed them all."""
    listed = {hit[1] for hit in case.hits(r"^\s*GPU (\d+): ")}
    if listed:
        return len(listed), True
    rows = {hit[1] for hit in case.hits(r"^\|\s+(\d+)\s+\S.*\|\s*[0-9A-F]{8}:", "nvidia-smi")}
    if rows:
        return len(rows), True
    return (len(case.cards("nvidia")) or None), False


def cuda_visible_devices_hides_gpu(case: Case) -> Iterator[Finding]:
    """The variable names no card that exists, so the process sees none."""
    value, line = visible(case)
    said = case.hit(_HIDDEN)
    if case.torch.flavour in ("cpu", "xpu") or (case.gpus and not case.cards("nvidia")):
        return
    broken = case.torch.available is False or case.torch.device_count == 0 or said is not None
    if value is None:
        # The usual cause where everything else is seen to work.
        if (
            said
            and "no cuda gpus" in said.line.lower()
            and works(case)
            and not case.in_container
            and case.torch.available is not False
            and not _mig_lines(case)
        ):
            yield _hides(case, None, (str(said),), 42)
        return
    count, sure = _count(case)
    first = value.split(",")[0].strip()
    uuids = {hit[1] for hit in case.hits(r"UUID:\s*((?:GPU|MIG)-[0-9a-zA-Z/-]+)")}
    certain = first in ("", "-1", "none", "NoDevFiles", "void") or not re.match(r"(?:\d+$|(?:GPU|MIG)-)", first)
    if re.fullmatch(r"\d+", first):
        beyond = [
            each for each in value.split(",") if re.fullmatch(r"\s*\d+\s*", each) and count is not None and int(each) >= count
        ]
        wrong = count is not None and int(first) >= count
        # Cards behind the first one that does not exist are hidden too.
        partly = bool(beyond) and not wrong and sure and said is not None and "ordinal" in said.line.lower()
        likely = broken and count is None and int(first) > 0
        certain = wrong or partly
        if not certain and not likely:
            return
    elif first.startswith(("GPU-", "MIG-")):
        certain = bool(uuids) and not any(each.startswith(first) for each in uuids)
        likely = False
    else:
        likely = False
    if not certain and not likely:
        return
    if (not broken and not (certain and sure)) or case.torch.available:
        return
    has = (f"{count} {'card' if count == 1 else 'cards'}",) if count is not None else ()
    listed = case.hit(r"^\s*GPU \d+: ")
    evidence = [line, str(said or ""), str(listed or "")]
    evidence += ["torch.available: false"] if case.torch.available is False else []
    yield _hides(
        case,
        value,
        tuple(text for text in evidence if text),
        91 if certain and (sure or not re.fullmatch(r"\d+", first)) else 84 if certain else 74,
        *has,
    )


def _hides(case: Case, value: str | None, evidence: tuple[str, ...], likelihood: int, count: str = "") -> Finding:
    names = f'CUDA_VISIBLE_DEVICES is "{value}"' if value is not None else "the process is shown no card that nvidia-smi lists"
    return Finding(
        cause="cuda-visible-devices-hides-gpu",
        message=f"{names}{f', and this machine has {count}, counted from 0' if count else ''}: the process sees none"
        if value is not None
        else f"{names}: CUDA_VISIBLE_DEVICES is the usual cause",
        evidence=evidence,
        remedy=(
            "Take the variable away, or set it to an index that nvidia-smi -L lists (they begin at 0); look for "
            "it in the shell, the job "
            "script and the program itself, which may set os.environ."
        ),
        commands=(commands.unset(case, "CUDA_VISIBLE_DEVICES"), commands.export(case, "CUDA_VISIBLE_DEVICES", "0")),
        sources=(_VISIBLE,),
        likelihood=likelihood,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    mig_no_instance,
    mig_slice_not_selected,
    app_cannot_parse_mig_uuid,
    cuda_visible_devices_hides_gpu,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "mig-no-instance": ("cuda-visible-devices-hides-gpu", "mig-slice-not-selected"),
    "mig-slice-not-selected": ("cuda-visible-devices-hides-gpu",),
    "app-cannot-parse-mig-uuid": ("mig-slice-not-selected", "cuda-visible-devices-hides-gpu"),
}
