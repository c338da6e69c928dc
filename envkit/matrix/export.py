"""The whole matrix for people and for machines: as JSON, CSV, Markdown and HTML. The same matrix gives the same bytes."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envkit.matrix.plain import plain
from envkit.model import Backend, BackendRelease, Build, Framework, Matrix, Os, Scheme

FORMATS = ("json", "csv", "md", "html")
TABLES = ("combinations", "schemes", "drivers", "branches")

_PUBLISHED = {True: "yes", False: "no", None: "not confirmed"}
Row = Mapping[str, str]


# ---- the tables --------------------------------------------------------------------------------------------------


def tables(matrix: Matrix) -> dict[str, list[Row]]:
    """What people look for, as flat tables: schemes, combinations (one row a scheme, build and platform), drivers, branches."""
    return {
        "schemes": [_scheme(matrix, scheme) for scheme in matrix.schemes.values()],
        "combinations": [row for scheme in matrix.schemes.values() for row in _combinations(matrix, scheme)],
        "drivers": [_driver(backend, release) for backend in matrix.backends.values() for release in backend.releases],
        "branches": [
            {
                "backend": backend.name,
                "branch": str(branch.branch),
                "newest runtime": str(branch.max_backend or ""),
                "no longer drives": " ".join(branch.dropped),
                "kind": branch.designation,
                "ends": branch.eol,
                "note": branch.note,
                "sources": " ".join(branch.sources),
            }
            for backend in matrix.backends.values()
            for branch in backend.branches
        ],
    }


def _scheme(matrix: Matrix, scheme: Scheme) -> Row:
    container = scheme.container
    return {
        "scheme": scheme.name,
        "title": scheme.title,
        "task": scheme.task,
        "framework": scheme.framework,
        "runtime": matrix.backends[scheme.backend].title,
        "for": scheme.for_whom,
        "needs": "; ".join(scheme.needs),
        "good": "; ".join(scheme.pros),
        "bad": "; ".join(scheme.cons),
        "cannot": "; ".join(scheme.cannot),
        "stability": scheme.stability,
        "ecosystem": scheme.ecosystem,
        "several devices": scheme.multi_device + (f" ({scheme.collectives})" if scheme.collectives else ""),
        "container": container.base if container else f"none: {scheme.no_container}",
        "sources": " ".join(scheme.sources),
    }


def _combinations(matrix: Matrix, scheme: Scheme) -> Iterable[Row]:
    backend, framework = matrix.backends[scheme.backend], matrix.frameworks[scheme.framework]
    releases = {release.tag: release for release in backend.releases}
    family = "linux" if scheme.os is Os.WSL2 else str(scheme.os)
    for build in framework.builds:
        if build.tag not in releases:
            continue
        for platform in build.platforms:
            if platform.partition("/")[0] == family:
                yield _combination(scheme, framework, build, releases[build.tag], platform)


def _combination(scheme: Scheme, framework: Framework, build: Build, runtime: BackendRelease, platform: str) -> Row:
    served = [row for row in framework.releases if row.version == build.release or row.version.startswith(f"{build.release}.")]
    pythons = build.pythons or tuple(dict.fromkeys(python for row in served for python in row.pythons))
    floor = f"macOS {build.macos}" if build.macos else f"glibc {build.glibc}" if build.glibc else ""
    code = "" if build.archs is None else " ".join((*build.archs, *(f"{arch}+ptx" for arch in build.ptx)))
    return {
        "scheme": scheme.name,
        "platform": platform,
        "framework": framework.name,
        "releases": " ".join(row.version for row in served),
        "tag": build.tag,
        "runtime": "" if runtime.version == "0" else str(runtime.version),
        "pythons": " ".join(sorted(pythons, key=_python)),
        "floor": floor,
        "driver": _floor(runtime, scheme.os),
        "code for": code,
        "published": _PUBLISHED[build.published],
        "evidence": str(build.evidence),
        "package": build.package or framework.package,
        "index": (build.index or framework.index).replace("{tag}", build.tag),
        "note": build.note,
        "sources": " ".join(build.sources),
    }


def _python(text: str) -> tuple[int, str]:
    return int(text.rstrip("t").partition(".")[2]), text


def _floor(runtime: BackendRelease, os: Os) -> str:
    floor = runtime.min_driver.get(os)
    if floor is None and os is Os.WSL2:
        return ""
    if floor is not None:
        return f"{floor} or newer"
    tested = runtime.tested_driver.get(os)
    return f"released with {tested}" if tested else ""


def _driver(backend: Backend, release: BackendRelease) -> Row:
    def by_os(versions: Mapping[Os, Any]) -> str:
        return "; ".join(f"{os} {version}" for os, version in versions.items())

    return {
        "runtime": backend.title,
        "version": "" if release.version == "0" else str(release.version),
        "tag": release.tag,
        "oldest driver": by_os(release.min_driver),
        "toolkit's own driver": by_os(release.toolkit_driver),
        "newest driver": by_os(release.max_driver),
        "released with": by_os(release.tested_driver),
        "oldest kernel": by_os(release.min_kernel),
        "listed for": "" if release.archs is None else " ".join(release.archs),
        "evidence": str(release.evidence),
        "note": release.note,
        "sources": " ".join(release.sources),
    }


# ---- JSON and CSV ------------------------------------------------------------------------------------------------


def to_json(matrix: Matrix) -> str:
    """The document envkit/matrix-export/1."""
    document = {
        "schema": "envkit/matrix-export/1",
        "updated": matrix.updated,
        **tables(matrix),
        "sources": {word: plain(source) for word, source in matrix.sources.items()},
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def to_csv(matrix: Matrix, table: str = "combinations") -> str:
    """One table; its first line names the columns."""
    rows = tables(matrix)[table]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if rows:
        writer.writerow(rows[0])
        writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return stream.getvalue()


def _cell(value: str) -> str:
    # A spreadsheet takes what begins so for a formula and carries it out.
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


# ---- Markdown and HTML -------------------------------------------------------------------------------------------

_HEADS = {
    "schemes": ("Schemes", "Ways to a working environment: what each needs, what speaks for and against it."),
    "combinations": ("Combinations", "Which build of a framework serves which scheme and platform, and what it needs there."),
    "drivers": ("Runtimes and drivers", "Which driver each release of a runtime needs. Floors are what a wheel needs."),
    "branches": ("Driver branches", "What each branch of a kernel driver serves, and what it no longer drives."),
}


def _title(matrix: Matrix) -> str:
    return f"The compatibility matrix of envkit, {matrix.updated}"


def to_markdown(matrix: Matrix) -> str:
    """All tables as Markdown."""
    lines = [f"# {_title(matrix)}", "", _legend(matrix), ""]
    for name, rows in tables(matrix).items():
        title, about = _HEADS[name]
        lines += [f"## {title}", "", about, ""]
        if rows:
            lines += [_md_row(rows[0]), _md_row(["---"] * len(rows[0])), *(_md_row(row.values()) for row in rows), ""]
    lines += ["## Sources", ""]
    for word, source in matrix.sources.items():
        link = f" <{source.url}>" if source.url else ""
        read = f" (read {source.date})" if source.date else ""
        lines.append(f"- `{word}`: {_md(source.text)}{link}{read}")
    return "\n".join(lines) + "\n"


def _legend(matrix: Matrix) -> str:
    return (
        f"{len(matrix.schemes)} schemes, {sum(len(row.builds) for row in matrix.frameworks.values())} builds, "
        f"{len(matrix.sources)} sources. An empty cell is not known. "
        "Evidence: claimed (a document says so), index-checked (seen on the index), wheel-measured (read out of the wheel), "
        "run-on-hardware (proved)."
    )


def _md_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_md(cell) for cell in cells) + " |"


def _md(text: str) -> str:
    for mark in ("\\", "|", "<", "*", "_", "`", "["):
        text = text.replace(mark, f"\\{mark}")
    return text


_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --link: #06c; }
@media (prefers-color-scheme: dark) { :root { --link: #6bf; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 110rem; padding: 1rem 1.5rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
nav a, a { color: var(--link); } nav a { margin-right: 1rem; }
.wide { overflow-x: auto; max-height: 85vh; border: 1px solid var(--line); }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .55rem; border-bottom: 1px solid var(--line); }
th { position: sticky; top: 0; background: Canvas; white-space: nowrap; }
td { max-width: 26rem; overflow-wrap: anywhere; } td:first-child { font-weight: 600; white-space: nowrap; }
tr:nth-child(even) td { background: var(--soft); }
input { font: inherit; padding: .3rem .5rem; width: min(30rem, 100%); margin: .4rem 0; }
dt { font-weight: 600; margin-top: .5rem; } dd { margin: 0; }
""".strip()

# Rows that hold all the words typed are shown.
_SCRIPT = """
for (const field of document.querySelectorAll("input")) {
  const rows = document.querySelectorAll("#" + field.dataset.table + " tbody tr");
  field.hidden = false;
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
}
""".strip()


def to_html(matrix: Matrix) -> str:
    """One page with everything in it: no file, font or script from elsewhere."""
    found = tables(matrix)
    title = html.escape(_title(matrix))
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n<h1>{title}</h1>",
        f"<p>{html.escape(_legend(matrix))}</p>",
        "<nav>" + "".join(f'<a href="#{name}">{_HEADS[name][0]}</a>' for name in found) + '<a href="#sources">Sources</a></nav>',
    ]
    for name, rows in found.items():
        heading, about = _HEADS[name]
        parts.append(f'<h2 id="{name}">{heading}</h2>\n<p>{about}</p>')
        if rows:
            parts.append(_html_table(name, heading, rows))
    parts.append('<h2 id="sources">Sources</h2>\n<dl>')
    for word, source in matrix.sources.items():
        text = html.escape(source.text)
        if source.url.startswith(("https://", "http://")):
            text = f'<a href="{html.escape(source.url)}" rel="noreferrer">{text}</a>'
        read = f" (read {html.escape(source.date)})" if source.date else ""
        parts.append(f'<dt id="source-{html.escape(word)}">{html.escape(word)}</dt><dd>{text}{read}</dd>')
    parts.append(f"</dl>\n<script>\n{_SCRIPT}\n</script>\n</body>\n</html>")
    return "\n".join(parts) + "\n"


def _html_table(name: str, heading: str, rows: Sequence[Row]) -> str:
    lines = [
        f'<input hidden type="search" data-table="table-{name}" aria-label="Filter {heading}" placeholder="Filter">',
        f'<div class="wide" tabindex="0"><table id="table-{name}">\n<thead><tr>',
        "".join(f'<th scope="col">{html.escape(column)}</th>' for column in rows[0]) + "</tr></thead>\n<tbody>",
    ]
    for row in rows:
        cells = [
            "".join(f'<a href="#source-{html.escape(word)}">{html.escape(word)}</a> ' for word in value.split())
            if column == "sources"
            else html.escape(value)
            for column, value in row.items()
        ]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    lines.append("</tbody></table></div>")
    return "\n".join(lines)
