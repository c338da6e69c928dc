"""What the resolver says, in Chinese: a catalogue of its sentences. Names, versions and commands stay as they are."""

from __future__ import annotations

import re
from functools import lru_cache

# Sentences as the rules write them; {x} stands for a name or a number that is taken over, {x!} for a part that is itself
# a sentence of this catalogue. A sentence that is missing stays English, and a test tells.
_CATALOGUE = {
    # rules: system
    "{scheme} is for {os}; this machine runs {have}": "{scheme} 用于 {os}，而本机运行 {have}",
    "on mps, {build} needs {floor} or newer; this machine runs {have}": "在 mps 上，{build} 需要 {floor} 或更新的版本，本机为 {have}",
    "on mps, {build} needs {floor} or newer; which {have} this machine runs is not known": (
        "在 mps 上，{build} 需要 {floor} 或更新的版本；本机是哪个 {have} 尚不清楚"
    ),
    "{build} needs {floor} or newer; this machine runs {have}": "{build} 需要 {floor} 或更新的版本，本机为 {have}",
    "{build} needs {floor} or newer; which {have} this machine runs is not known": (
        "{build} 需要 {floor} 或更新的版本；本机是哪个 {have} 尚不清楚"
    ),
    "for {build} and {card}, {systems} are listed; this machine runs {have}": (
        "对 {build} 与 {card}，列出的系统是 {systems}；本机运行 {have}"
    ),
    "{vendor} does not list {card} for {toolkit} {where}; whether it works there is not known": (
        "{vendor} 没有为 {toolkit} 列出 {card}（{where}）；能否在那里工作尚不清楚"
    ),
    "kernel {kernel} is not one that {vendor} lists for {toolkit} on {release}: {known}": (
        "内核 {kernel} 不在 {vendor} 为 {release} 上的 {toolkit} 列出的内核之内：{known}"
    ),
    "{card} is made to compute alone; whether {backend} reaches it is not known": (
        "{card} 只用于计算；{backend} 能否使用它尚不清楚"
    ),
    "whether {build} has code for {card} is not known: it holds at least {archs}": (
        "{build} 是否含有 {card} 的代码尚不清楚：它至少含有 {archs}"
    ),
    "{build} is not made for {card}: at most for {archs}": "{build} 不面向 {card}：至多面向 {archs}",
    "{text} is the number that the driver {branch} of {vendor} shows": "{text} 是 {vendor} 驱动 {branch} 所显示的编号",
    "the driver {text} is none of {vendor}'s releases that the matrix knows, so which {backend} it serves is not judged": (
        "驱动 {text} 不是矩阵所知的 {vendor} 发行版，因此不判断它适用于哪个 {backend}"
    ),
    "{release} is not on {vendor}'s list of systems for {toolkit}": "{release} 不在 {vendor} 为 {toolkit} 列出的系统之内",
    "{build} is built for glibc; {system} uses musl, for which there are no wheels": "{build} 面向 glibc 构建；{system} 使用 musl，没有对应的 wheel",
    "{build} needs glibc {floor}; {system} has {have}": "{build} 需要 glibc {floor}；{system} 只有 {have}",
    "{card} is built together with its processor: its systems are {own}, never {word}": "{card} 与其处理器是一体的：系统只能是 {own}，不会是 {word}",
    "{build} is published for {platforms}; this machine is {word}": "{build} 只发布了 {platforms} 版本；本机为 {word}",
    # rules: the framework's build
    "{build} was withdrawn": "{build} 已被撤回",
    "{build} is expected, but that it was published is not confirmed": "{build} 预计存在，但是否已发布尚未证实",
    "{build} is not confirmed: {note}": "{build} 尚未证实：{note}",
    "{build} is not confirmed: {package} is on PyPI, but no source says which CANN it goes with": (
        "{build} 尚未证实：{package} 在 PyPI 上，但没有资料说明它与哪个 CANN 配套"
    ),
    "{build} is not confirmed: {software} is known from images in public Dockerfiles alone; Pythons as in {other}": (
        "{build} 尚未证实：{software} 只见于公开 Dockerfile 中的镜像；Python 版本与 {other} 相同"
    ),
    "{build} is not confirmed: which Pythons {software} came with is in no source read; {python} is that of the next one": (
        "{build} 尚未证实：{software} 支持哪些 Python 没有资料说明；{python} 是后一版本的 Python"
    ),
    "{build} is not confirmed: {package} is known from third-party images alone": "{build} 尚未证实：{package} 只见于第三方镜像",
    "{build} is not confirmed: {package} is known from third-party images alone; "
    "the same with a .post1 of torch and of torch_musa is on Moore Threads' index": (
        "{build} 尚未证实：{package} 只见于第三方镜像；torch 和 torch_musa 的 .post1 版本在摩尔线程的索引上"
    ),
    "{build} is not confirmed: {package} is named in CI files alone, which say that its image is not published yet": (
        "{build} 尚未证实：{package} 只见于 CI 文件，其中写明镜像尚未发布"
    ),
    "{build} was never published": "{build} 从未发布过",
    "for which Pythons {build} has wheels is not known": "{build} 提供哪些 Python 版本的 wheel 尚不清楚",
    "{build} has wheels for Python {known}; this is Python {have}": "{build} 提供 Python {known} 的 wheel；此处为 Python {have}",
    "no {library} that {build} works with has wheels for Python {have} that run on glibc {glibc}: they need {floor}": (
        "与 {build} 配合的 {library} 没有能在 glibc {glibc} 上运行的 Python {have} wheel：需要 {floor}"
    ),
    "no {library} that {build} works with has wheels for Python {have}": "与 {build} 配合的 {library} 没有 Python {have} 的 wheel",
    "{name} was asked for; for {build} there is none": "要求了 {name}；但 {build} 没有与之配套的版本",
    "{name} was asked for; for {build} none of its releases ({known}) has wheels for Python {have}": (
        "要求了 {name}；与 {build} 配套的版本（{known}）都没有 Python {have} 的 wheel"
    ),
    # rules: the accelerator
    "the vendor of {card} is not known": "{card} 的厂商无法确定",
    "the vendor of {card} is not known: it may be {names}": "{card} 的厂商无法确定：可能是 {names}",
    "{scheme} needs {wanted!}; this machine has {there!}": "{scheme} 需要{wanted}；本机有 {there}",
    "{scheme} needs {wanted!}; this machine has no accelerator": "{scheme} 需要{wanted}；本机没有加速器",
    "an NVIDIA GPU": " NVIDIA GPU",
    "an AMD GPU": " AMD GPU",
    "an Intel GPU": " Intel GPU",
    "an Apple GPU": " Apple GPU",
    "a Huawei Ascend NPU": "华为昇腾 NPU",
    "a Google TPU": " Google TPU",
    "an Intel Gaudi": " Intel Gaudi",
    "a Cambricon MLU": "寒武纪 MLU",
    "a Moore Threads GPU": "摩尔线程 GPU",
    "an AWS Neuron device": " AWS Neuron 设备",
    "a GPU": " GPU",
    "no accelerator": "没有加速器",
    "the machine has {there}; the CPU is used only when asked for (--scheme {scheme})": (
        "本机有 {there}；只有明确要求时才使用 CPU（--scheme {scheme}）"
    ),
    "{own} has code for {there}; {scheme} is used only when asked for (--scheme {name})": (
        "{own} 有适合 {there} 的代码；只有明确要求时才使用 {scheme}（--scheme {name}）"
    ),
    "{reason!}; the setting would apply to every card of this machine": "{reason}；但该设置会作用于本机所有的卡",
    "the architecture of {card} is not known": "{card} 的架构无法确定",
    "the architecture of {card} is not known: it may be {names}": "{card} 的架构无法确定：可能是 {names}",
    "{card} is a Jetson: whether the driver of its JetPack runs {build} is not known; "
    "the wheels that NVIDIA makes for it lie on an index of their own, which the matrix does not hold": (
        "{card} 是 Jetson：其 JetPack 的驱动能否运行 {build} 尚不清楚；NVIDIA 为它制作的 wheel 在其自有索引上，矩阵并未收录"
    ),
    "{card} is a Jetson: the wheels that NVIDIA makes for it lie on an index of their own, which the matrix does not hold": (
        "{card} 是 Jetson：NVIDIA 为它制作的 wheel 在其自有索引上，矩阵并未收录"
    ),
    "which chips {toolkit} serves is not known": "{toolkit} 支持哪些芯片尚不清楚",
    "whether {toolkit} serves {card} is not known": "{toolkit} 是否支持 {card} 尚不清楚",
    "{toolkit} serves {chips}; this machine has {card}": "{toolkit} 支持 {chips}；本机为 {card}",
    "{build} holds code for {card}": "{build} 含有 {card} 的代码",
    "{build} holds {code} code, which runs on {card}": "{build} 含有 {code} 代码，可在 {card} 上运行",
    "{build} has no code for {card}; the driver translates its PTX at first start": "{build} 没有 {card} 的代码；驱动会在首次启动时翻译其 PTX",
    "{build} has no code for {card}; with {setting} it runs {code} code": "{build} 没有 {card} 的代码；设置 {setting} 后运行 {code} 的代码",
    "{arch} is an architecture that the matrix does not know": "矩阵中没有 {arch} 这种架构",
    "the matrix does not know {arch}, which is newer than all code in {build}": "矩阵中没有 {arch}，它比 {build} 中的所有代码都新",
    "the matrix does not know {arch}, so neither whether code of {build} runs on it": (
        "矩阵中没有 {arch}，因此也无法判断 {build} 的代码能否在其上运行"
    ),
    "{build} has no code for {card}": "{build} 没有 {card} 的代码",
    "{build} has no code for {card}: it holds {codes}": "{build} 没有 {card} 的代码：它只含有 {codes}",
    "{build} cannot have code for {card}: {last} was the last that made any": "{build} 不可能含有 {card} 的代码：{last} 是最后能生成它的版本",
    "which code {build} holds is not known, so neither is whether it runs on {card}": "{build} 含有哪些代码尚不清楚，因此能否在 {card} 上运行也不清楚",
    "{build} is community work": "{build} 由社区维护",
    "{build} is community work: {note}": "{build} 由社区维护：{note}",
    "whether {vendor} supports {card} with {toolkit} is not known": "{vendor} 是否在 {toolkit} 中支持 {card} 尚不清楚",
    "{vendor} publishes no list of the cards that {toolkit} serves": "{vendor} 没有公布 {toolkit} 支持的卡的列表",
    "{vendor} calls {card} deprecated in {toolkit}": "{vendor} 在 {toolkit} 中已将 {card} 标为弃用",
    "{card} is not on {vendor}'s list for {toolkit}": "{card} 不在 {vendor} 的 {toolkit} 支持列表中",
    # rules: the driver
    "{card} has no kernel driver; {toolkit} needs {module}": "{card} 没有内核驱动；{toolkit} 需要 {module}",
    "{card} has no kernel driver; {toolkit} needs {module} or newer": "{card} 没有内核驱动；{toolkit} 需要 {module} 或更新",
    "{card} has the kernel driver {have}; {toolkit} needs {module}": "{card} 由内核驱动 {have} 占用；{toolkit} 需要 {module}",
    "{card} has the kernel driver {have}; {toolkit} needs {module} or newer": "{card} 由内核驱动 {have} 占用；{toolkit} 需要 {module} 或更新",
    "whether {toolkit} wheels work inside WSL2 is not known": "{toolkit} 的 wheel 能否在 WSL2 中工作尚不清楚",
    "driver {have} is older than {floor}, which {toolkit} wheels need on {os}": "驱动 {have} 低于 {floor}，后者是 {os} 上 {toolkit} wheel 的最低要求",
    "driver {have} is older than {floor}, which these wheels need on {os}": "驱动 {have} 低于 {floor}，后者是 {os} 上这些 wheel 的最低要求",
    "driver {have} reaches {floor}, the floor of {toolkit} wheels": "驱动 {have} 达到 {toolkit} wheel 的最低要求 {floor}",
    "{toolkit} wheels need the kernel's own amdgpu driver, or {floor} or newer of AMD's packages": (
        "{toolkit} 的 wheel 需要内核自带的 amdgpu 驱动，或 AMD 软件包 {floor} 或更新"
    ),
    "{toolkit} wheels need driver {floor} or newer": "{toolkit} 的 wheel 需要驱动 {floor} 或更新",
    "driver {have} does not know {card}: {first!}": "驱动 {have} 不认识 {card}：{first}",
    "{card} needs a driver that knows it: {first!}": "{card} 需要认识它的驱动：{first}",
    "the first is {floor}, of {toolkit}": "最早的是 {floor}（随 {toolkit} 发布）",
    "even {arch} takes {floor}, of {toolkit}": "连 {arch} 也要 {floor}（随 {toolkit} 发布）",
    "which driver translates the PTX of {toolkit} is not known": "哪个驱动能翻译 {toolkit} 的 PTX 尚不清楚",
    "driver {have} cannot translate the PTX of {toolkit} for {card}: that takes the toolkit's own driver, {floor}": (
        "驱动 {have} 无法为 {card} 翻译 {toolkit} 的 PTX：需要该工具包自带的驱动 {floor}"
    ),
    "translating the PTX of {toolkit} takes the toolkit's own driver, {floor} or newer": "翻译 {toolkit} 的 PTX 需要该工具包自带的驱动 {floor} 或更新",
    "driver {have} no longer drives {card}: branch {branch} dropped it": "驱动 {have} 已不再支持 {card}：{branch} 分支移除了它",
    "driver {have} no longer drives {card}: branch {branch} dropped it, {last} is the last that does": (
        "驱动 {have} 已不再支持 {card}：{branch} 分支移除了它，{last} 是最后支持它的分支"
    ),
    "kernel driver {have} is newer than {newest}, the last that {vendor} tested with {toolkit}": (
        "内核驱动 {have} 比 {newest} 新，后者是 {vendor} 与 {toolkit} 一起测试过的最后版本"
    ),
    "{toolkit} was released and tested with driver {tested}; a minimum is not stated": (
        "{toolkit} 随驱动 {tested} 一起发布和测试；厂商没有说明最低版本"
    ),
    "{toolkit} was released and tested with driver {tested}; a minimum is not stated, and this machine has {have}": (
        "{toolkit} 随驱动 {tested} 一起发布和测试；厂商没有说明最低版本，而本机为 {have}"
    ),
    "{one!}; {other!}: no driver is both": "{one}；{other}：没有驱动能两者兼顾",
    "{card} is {family} beside a processor of its own, which works only with the {kind!} kernel module": (
        "{card} 属于与自有处理器一体的 {family}，只能使用{kind}内核模块"
    ),
    "no source says which driver {toolkit} was tested with; this machine has {have}": (
        "没有资料说明 {toolkit} 与哪个驱动一起测试过；本机为 {have}"
    ),
    "{build} takes {toolkit} from the machine: its wheels bring no runtime along": (
        "{build} 使用本机安装的 {toolkit}：其 wheel 不自带运行时"
    ),
    "{toolkit} is installed": "已安装 {toolkit}",
    "{build} is paired with {toolkit}; this machine has {have}": "{build} 与 {toolkit} 配套；本机为 {have}",
    "{card} is {family}, which works only with the {kind!} kernel module": "{card} 属于 {family}，只能使用{kind}内核模块",
    "{only!}; the loaded one is {kind!} (license {license})": "{only}；当前加载的是{kind}模块（许可证 {license}）",
    "open": "开放",
    "proprietary": "专有",
    # reasons of a plan
    "{scheme} was asked for": "按要求使用 {scheme}",
    "the machine has no accelerator, so the CPU does the work": "本机没有加速器，由 CPU 计算",
    "{release} is the newest that the matrix has for {scheme}": "{release} 是矩阵中 {scheme} 的最新版本",
    "Python {have} comes with {platform}; --python names another": "Python {have} 随 {platform} 提供；可用 --python 另选",
    "Python {have} is the newest that everything has wheels for; --python names another": (
        "Python {have} 是所有软件包都有 wheel 的最新版本；可用 --python 另选"
    ),
    "the machine has no {vendor} GPU, so {framework} computes on the {device}": "本机没有 {vendor} GPU，因此 {framework} 在 {device} 上计算",
    "no card was named, so the plan is for any that {build} serves": "没有指明卡，因此方案适用于 {build} 支持的任何卡",
    "no card was named, so the plan is for any that {build} serves: its code is for {codes}": (
        "没有指明卡，因此方案适用于 {build} 支持的任何卡：其代码面向 {codes}"
    ),
    "{name} was passed over: {reason!}": "未采用 {name}：{reason}",
    "it is not as well supported here": "它在本机的支持程度较低",
    "{name} is left unused, as asked": "按要求不使用 {name}",
    "{name} is kept away from the framework with {setting} (numbered as the machine lists its cards)": (
        "用 {setting} 使框架看不到 {name}（编号按机器列出的顺序）"
    ),
    "{name} is left alone: a build for {vendor} does not use it": "{name} 闲置：面向 {vendor} 的构建不使用它",
    "{card} is left aside: no scheme of the matrix uses {vendor} GPUs here": "{card} 不予考虑：矩阵中没有在此系统上使用 {vendor} GPU 的方案",
    # changes
    "move to {system} or newer (glibc {floor})": "换用 {system} 或更新的系统（glibc {floor}）",
    "update macOS to {floor} or newer": "将 macOS 升级到 {floor} 或更新",
    "set {setting}: --accept override": "设置 {setting}：--accept override",
    "update the driver to {floor} or newer": "将驱动升级到 {floor} 或更新",
    "update the Windows driver to {floor} or newer": "将 Windows 驱动升级到 {floor} 或更新",
    "install {vendor}'s driver": "安装 {vendor} 的驱动",
    "install {vendor}'s driver {floor} or newer": "安装 {vendor} 的驱动 {floor} 或更新",
    "install {toolkit}": "安装 {toolkit}",
    "use a {branch} driver": "使用 {branch} 分支的驱动",
    "install the {kind!} kernel module of the driver": "安装驱动的{kind}内核模块",
    "use Python {have}": "使用 Python {have}",
    "use Python {have}: --python {same}": "使用 Python {have}：--python {same}",
    "use the CPU: --scheme {scheme}": "使用 CPU：--scheme {scheme}",
    "use {what}: --scheme {scheme}": "使用 {what}：--scheme {scheme}",
    "take what works without the vendor's promise: --accept community": "接受厂商不作承诺的组合：--accept community",
    "take what works with a setting: --accept override": "接受需要设置的组合：--accept override",
    "take what is not known to work: --accept unknown": "接受尚不确定的组合：--accept unknown",
    "use another build: --backend {tag}": "换用另一个构建：--backend {tag}",
    "use {name}: --torch {version}": "使用 {name}：--torch {version}",
    "hide the {names}": "隐藏 {names}",
    "hide the {names}: {setting}": "隐藏 {names}：{setting}",
    "{one!}, and {other!}": "{one}，并{other}",
    # reasons in groups
    "{names} and {last} need other devices; {there!}": "{names} 和 {last} 需要其他设备；{there}",
    "this machine has {there}": "本机有 {there}",
    "this machine has no accelerator": "本机没有加速器",
    "and {count} more reasons (--all lists every candidate)": "另有 {count} 个原因（envkit resolve --all 列出全部候选）",
    "and {count} more reason (--all lists every candidate)": "另有 {count} 个原因（envkit resolve --all 列出全部候选）",
    "the matrix has no {framework} scheme on {os}": "矩阵中没有 {os} 上 {framework} 的方案",
    "the matrix has no {framework} scheme for {backend} on {os}": "矩阵中没有 {os} 上 {backend} 的 {framework} 方案",
    "the matrix has no scheme on {os}": "矩阵中没有 {os} 的方案",
    "the matrix has no scheme for {backend} on {os}": "矩阵中没有 {os} 上 {backend} 的方案",
    "the matrix knows no release of {name}": "矩阵中没有 {name} 的任何版本",
    "the matrix knows no {wanted}: it has {first} to {last}": "矩阵中没有 {wanted}：它有 {first} 到 {last}",
    "{wanted} is not published for {backend}: it has {tags}": "{wanted} 没有发布 {backend} 版本：它有 {tags}",
    "{wanted} is not published for {backend} on {os}: it has {tags}": "{wanted} 没有在 {os} 上发布 {backend} 版本：它有 {tags}",
    "{wanted} is not published for {backend}: it has {tags}; {scheme} has {known}": (
        "{wanted} 没有发布 {backend} 版本：它有 {tags}；{scheme} 有 {known}"
    ),
    "the matrix has nothing to offer": "矩阵中没有可提供的内容",
    # advice
    "{build} is supported here (evidence: {evidence})": "{build} 受支持（证据：{evidence}）",
    "stable and maintained": "稳定，持续维护",
    "a broad ecosystem: most libraries are made for it first": "生态广泛：多数库首先面向它开发",
    "a narrow ecosystem: few libraries are made for it": "生态较窄：面向它的库很少",
    "several devices work together ({library})": "支持多卡协同（{library}）",
    "several devices work together only in part": "多卡协同仅部分可用",
    "one device only": "只能使用一张卡",
    "made for inference alone: it does not train": "只用于推理，不能训练",
    "works without the vendor's promise": "可用，但厂商不作承诺",
    "works only with a setting": "需要特定设置才能使用",
    "not known to work": "能否使用尚不清楚",
    "still a beta": "仍是测试版",
    "still a prototype": "仍是原型",
    "in maintenance: nothing new comes": "仅维护，不再有新功能",
    "ended: there are no releases any more": "已终止，不再发布新版本",
    "no accelerator; {systems}": "没有加速器；{systems}",
}

_WORDS = {
    "it": "该构建",
    "these wheels": "这些 wheel",
    "this machine": "本机",
    "this system": "本系统",
    "the vendor": "厂商",
    "the CPU": "CPU",
    "no chip": "无",
    "none": "无",
    "unknown GPU": "未知 GPU",
}


@lru_cache(maxsize=1)
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """The catalogue with the most particular sentences first."""

    made = []
    for sentence in sorted(_CATALOGUE, key=_order):
        pattern = re.sub(r"\\\{(\w+)(!?)\\\}", _group, re.escape(sentence))
        made.append((re.compile(pattern, re.DOTALL), _CATALOGUE[sentence]))
    return made


def _order(sentence: str) -> tuple[bool, int]:
    literal = len(re.sub(r"\{\w+!?\}", "", sentence))
    # A sentence around another one goes first, unless it is little more than a colon.
    return not ("!}" in sentence and literal > 8), -literal


def _group(found: re.Match[str]) -> str:
    return f"(?P<{found[1]}{'__' if found[2] else ''}>.+?)"


# The head of a line that tells for which builds of which scheme a reason stands.
_HEAD = re.compile(r"((?:linux|windows|macos|wsl2)-[a-z0-9-]+)(?:, (all \d+ builds|[^:]+\)))?: (.+)")


@lru_cache(maxsize=4096)
def in_chinese(text: str) -> str:
    """A sentence of the resolver in Chinese; one that the catalogue does not have as it is."""
    head = _HEAD.fullmatch(text)
    if head:
        return f"{head[1]}{'，' + _span(head[2]) if head[2] else ''}：{in_chinese(head[3])}"
    for pattern, chinese in _patterns():
        found = pattern.fullmatch(text)
        if found:
            values = {
                name.removesuffix("__"): in_chinese(value) if name.endswith("__") else _WORDS.get(value, value)
                for name, value in found.groupdict().items()
            }
            return chinese.format(**values)
    return _WORDS.get(text, text)


def _span(text: str) -> str:
    every = re.fullmatch(r"all (\d+) builds", text)
    return f"全部 {every[1]} 个构建" if every else text.replace(" to ", " 至 ")
