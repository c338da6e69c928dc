"""`envkit advise`: the schemes ranked for a machine or a purchase, with reasons for and against."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envkit.cli.output import emit, emit_json, format_option
from envkit.model import Cloud, Facts, Wish

if TYPE_CHECKING:
    from envkit.model import Matrix
    from envkit.resolve.advice import Advice, Advised, Point

NOTHING_FITS = 4


@click.command()
@click.option(
    "--facts", type=click.Path(path_type=Path), metavar="FILE", help="The facts of a machine, as `envkit detect` writes them."
)
@click.option("--gpu", default="", metavar="GPU", help='A card to look at before it is bought: "RX 7900 XTX"; none for no card.')
@click.option(
    "--os",
    "os",
    default="",
    metavar="OS",
    help="linux, windows, macos, wsl2 or a platform. For a card, the default is every system that it is served on.",
)
@click.option("--driver", default="", metavar="VERSION", help="The kernel driver's version.")
@click.option("--task", type=click.Choice(("train", "infer")), default="train", show_default=True, help="What it is for.")
@click.option("--lang", type=click.Choice(("en", "zh")), default="en", show_default=True, help="English or Chinese.")
@format_option("text", "json", "md")
@click.pass_context
def command(ctx: click.Context, facts: Path | None, gpu: str, os: str, driver: str, task: str, lang: str, form: str) -> int:
    """The schemes ranked for a machine or a card, each with reasons for and against, and its sources.

    Without --facts, --gpu and --os the machine is this one.
    """
    from envkit.cli.common import load_matrix
    from envkit.resolve.advice import advise

    matrix = load_matrix(ctx)
    advice = advise(matrix, Wish(gpu=gpu, os=os, driver=driver), _facts(facts, gpu, os), task=task, language=lang)
    if form == "json":
        emit_json(advice_document(advice))
    else:
        emit(advice_text(advice, matrix, marked=form == "md"))
    return 0 if advice.clouds or any(each.usable for each in advice.schemes) else NOTHING_FITS


def _facts(path: Path | None, gpu: str, os: str) -> Facts | None:
    from envkit import detect

    if path is not None:
        return detect.read_facts(path)
    return None if gpu.strip() or os.strip() else detect.detect()


# ---- documents ---------------------------------------------------------------------------------------------------


def advice_document(advice: Advice) -> dict[str, Any]:
    """The document envkit/advice/1."""
    return {
        "schema": "envkit/advice/1",
        "asked": advice.asked,
        "task": advice.task,
        "language": advice.language,
        "schemes": [_entry(number, each) for number, each in enumerate(advice.schemes, 1)],
        "clouds": [_cloud(each, advice.language) for each in advice.clouds],
        "notes": list(advice.notes),
    }


def _entry(rank: int, advised: Advised) -> dict[str, Any]:
    plan = advised.plan
    return {
        "rank": rank,
        "scheme": advised.scheme.name,
        "os": str(advised.os),
        "title": advised.title,
        "for_whom": advised.for_whom,
        "task": advised.scheme.task,
        "usable": advised.usable,
        "verdict": str(advised.verdict),
        "plan": {
            "framework": {"name": plan.framework_name, "version": plan.framework_version},
            "backend": {"name": plan.backend_name, "version": plan.backend_version, "tag": plan.backend_tag},
            "python": plan.python,
            "driver": {"have": plan.driver_have, "need": plan.driver_need},
            "env": dict(plan.env),
            "evidence": str(plan.evidence),
        }
        if plan
        else None,
        "for": _points(advised.pros),
        "against": _points(advised.cons),
        "cannot": _points(advised.cannot),
        "rejections": list(advised.rejections),
        "nearest": advised.change,
        "sources": list(advised.sources),
    }


def _points(points: tuple[Point, ...]) -> list[dict[str, Any]]:
    return [{"text": point.text, "sources": list(point.sources)} for point in points]


def _cloud(cloud: Cloud, language: str) -> dict[str, Any]:
    zh = cloud.zh if language == "zh" else {}
    return {
        "name": cloud.name,
        "title": zh.get("title") or cloud.title,
        "text": zh.get("text") or cloud.text,
        "package": cloud.package,
        "version": cloud.version,
        "endpoint": cloud.endpoint,
        "env": list(cloud.env),
        "training": cloud.training,
    }


# ---- text --------------------------------------------------------------------------------------------------------

_EN = {
    "title": "advice for {asked}, to {task}",
    "train": "train",
    "infer": "infer",
    "for": "for",
    "against": "against",
    "cannot": "cannot",
    "suits": "suits",
    "plan": "{verdict}: {build}, Python {python}",
    "driver": ", driver {need} or newer",
    "setting": "set",
    "sources": "sources",
    "get": "get it",
    "not": "does not do it here",
    "change": "would do: {change}",
    "other": "made for other devices: {names}",
    "notes": "besides",
    "none": "nothing here does it",
    "cloud": "{title}: no environment on a machine of one's own",
    "package": "client package {package} {version}",
}
_ZH = {
    "title": "{asked} 的建议（用途：{task}）",
    "train": "训练",
    "infer": "推理",
    "for": "优点",
    "against": "缺点",
    "cannot": "做不到",
    "suits": "适合",
    "plan": "{verdict}：{build}，Python {python}",
    "driver": "，驱动 {need} 或更新",
    "setting": "设置",
    "sources": "来源",
    "get": "安装",
    "not": "在此不可用",
    "change": "可行的改动：{change}",
    "other": "面向其他设备：{names}",
    "notes": "另外",
    "none": "此处没有可用的方案",
    "cloud": "{title}：没有可在自己机器上安装的环境",
    "package": "客户端软件包 {package} {version}",
}
_VERDICTS_ZH = {"supported": "支持", "community": "社区支持", "override": "需设置", "unknown": "未知", "unsupported": "不支持"}


def advice_text(advice: Advice, matrix: Matrix, *, marked: bool = False) -> str:
    """An advice as people read it; `marked` as Markdown."""
    words = _ZH if advice.language == "zh" else _EN
    head = words["title"].format(asked=advice.asked, task=words[advice.task])
    lines = [f"# {head}" if marked else head]
    for cloud in advice.clouds:
        lines += ["", *_cloud_lines(cloud, advice.language, words)]
    usable = [each for each in advice.schemes if each.usable]
    for number, each in enumerate(usable, 1):
        lines += ["", *_scheme_lines(number, each, words, advice.language, marked)]
    if not usable and not advice.clouds:
        lines += ["", words["none"]]
    left = [each for each in advice.schemes if not each.usable]
    here = [each for each in left if not each.other_hardware]
    if here:
        lines += ["", f"## {words['not']}" if marked else words["not"]]
        lines += [line for each in here for line in _left_lines(each, words)]
    other = [each.scheme.name for each in left if each.other_hardware]
    if other:
        lines += ["", words["other"].format(names=", ".join(other))]
    if advice.notes:
        lines += ["", words["notes"], *(f"  - {note}" for note in advice.notes)]
    return "\n".join(lines)


def _scheme_lines(number: int, advised: Advised, words: dict[str, str], language: str, marked: bool) -> list[str]:
    plan = advised.plan
    assert plan is not None  # noqa: S101
    verdict = _VERDICTS_ZH[str(advised.verdict)] if language == "zh" else str(advised.verdict)
    pin = plan.framework_package
    told = words["plan"].format(verdict=verdict, build=f"{pin.name} {pin.version}", python=plan.python)
    told += words["driver"].format(need=plan.driver_need) if plan.driver_need else ""
    head = f"{number}. {advised.scheme.name}: {advised.title}"
    rows = [("", told), (words["suits"], advised.for_whom)]
    rows += _rows(words["for"], advised.pros) + _rows(words["against"], advised.cons) + _rows(words["cannot"], advised.cannot)
    rows += [(words["setting"], f"{key}={value}") for key, value in sorted(plan.env.items())]
    way = f"envkit build {advised.scheme.name}" if pin.index == "vendor" else f"envkit up --scheme {advised.scheme.name}"
    rows.append((words["get"], way))
    rows += [(words["sources"] if not n else "", text) for n, text in enumerate(advised.sources)]
    if marked:
        return [f"## {head}", "", *(f"- {f'**{name}** ' if name else ''}{text}" for name, text in rows)]
    width = max(_columns(name) for name, _ in rows) + 2
    return [head, *(f"   {name}{' ' * (width - _columns(name))}{text}".rstrip() for name, text in rows)]


def _columns(text: str) -> int:
    """How many columns a text takes on a terminal: Chinese characters take two."""
    from unicodedata import east_asian_width

    return sum(2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def _rows(name: str, points: tuple[Point, ...]) -> list[tuple[str, str]]:
    return [(name if not number else "", point.text) for number, point in enumerate(points)]


def _left_lines(advised: Advised, words: dict[str, str]) -> list[str]:
    if advised.plan is not None:
        return [f"  - {advised.scheme.name}: {advised.cons[0].text}"]
    why = next(iter(advised.rejections), "")
    head = f"{advised.scheme.name}"
    lines = [f"  - {why if why.startswith(head) else f'{head}: {why}'}"]
    return lines + ([f"    {words['change'].format(change=advised.change)}"] if advised.change else [])


def _cloud_lines(cloud: Cloud, language: str, words: dict[str, str]) -> list[str]:
    zh = cloud.zh if language == "zh" else {}
    lines = [words["cloud"].format(title=zh.get("title") or cloud.title), f"  {zh.get('text') or cloud.text}"]
    if cloud.package:
        lines.append(f"  {words['package'].format(package=cloud.package, version=cloud.version)}".rstrip())
    lines += [f"  {text}" for text in (cloud.endpoint, ", ".join(cloud.env)) if text]
    return lines
