"""A report fit to be passed on: the facts of a machine without what names people, machines and secrets.

Whole or not at all: the text is searched again after the replacing, and is not given out where something was left.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from envkit.detect import facts_document
from envkit.errors import EnvkitError
from envkit.model import Facts

GONE = "(removed)"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Accounts and machines that are called alike everywhere: they name nobody, and their words are needed.
_EVERYBODYS = _words(
    "root admin administrator user users ubuntu debian fedora centos rocky opc ec2-user azureuser nobody nogroup runner "
    "runneradmin jovyan vagrant pi nvidia jetson lab test guest default docker localhost localhost.localdomain public "
    "shared all"
)
# Words of the field itself: a user of that name is only replaced where it plainly is a name.
_TECHNICAL = _words(
    "torch cuda python python3 linux windows macos darwin gpu cpu amd intel apple rocm xpu kernel driver system machine "
    "host server nvidia error version data code model train dev build work home name env venv conda pip uv vm wsl "
    "container kubernetes"
)
_GROUPS = _words(
    "root adm sudo wheel video render docker podman users plugdev dialout cdrom floppy audio dip netdev lpadmin lxd "
    "libvirt kvm input sys disk tty games staff nogroup nobody systemd-journal sambashare bluetooth scanner vglusers "
    "HwHiAiUser habanalabs everyone admin _developer com.apple.access_ssh localaccounts power wireshark vboxusers i2c "
    "gpio spi crontab ssl-cert daemon bin"
)
# Hosts that are the same for everybody, by the end of their names.
_KNOWN_HOSTS = re.compile(
    r"(^|\.)(pypi\.org|pythonhosted\.org|python\.org|pytorch\.org|github\.com|githubusercontent\.com|nvidia\.com|nvcr\.io|amd\.com|"
    r"radeon\.com|intel\.com|huggingface\.co|anaconda\.org|anaconda\.com|docker\.io|docker\.com|ghcr\.io|quay\.io|gcr\.io|debian\.org|"
    r"ubuntu\.com|launchpad\.net|fedoraproject\.org|redhat\.com|centos\.org|archlinux\.org|opensuse\.org|suse\.com|alpinelinux\.org|"
    r"microsoft\.com|aka\.ms|windows\.net|apple\.com|google\.com|googleapis\.com|amazonaws\.com|huawei\.com|hiascend\.com|"
    r"gitee\.com|habana\.ai|mthreads\.com|cambricon\.com|kernel\.org|astral\.sh|conda-forge\.org|tensorflow\.org|onnxruntime\.ai|"
    r"aliyun\.com|tsinghua\.edu\.cn|readthedocs\.io|stackoverflow\.com|wikipedia\.org|freedesktop\.org|gitlab\.com|w3\.org)$",
    re.IGNORECASE,
)

# Every repetition that something may follow has an end: a log of others must not cost us its square.
_PRIVATE_WORD = (
    r"[\w.-]{0,40}(?:passw(?:or)?d|passwd|passphrase|pwd|secret|token(?!iz|s\b)|api[_-]?key|apikey|access[_-]?key|private[_-]?key|"
    r"auth(?:orization)?|credentials?|session[_-]?(?:id|key)|cookie|licen[sc]e[_-]?key|client[_-]?secret|(?:^|_)key(?=_|\b)|netrc)"
    r"[\w-]{0,40}"
)
_SECRET_KEY = re.compile(rf"^(?:{_PRIVATE_WORD})$|_KEY$|_TOKEN$|_PAT$|_DSN$|_PROXY$", re.IGNORECASE)

_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z0-9 ]*(?:PRIVATE KEY|CERTIFICATE)[A-Z ]*-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL),
        GONE,
    ),
    (re.compile(r"(?<=://)[^\s/@'\"<>]+@"), f"{GONE}@"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), GONE),
    (
        re.compile(
            r"\b(?:gh[pousr]_\w{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_\w{16,}|sk-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|"
            r"(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w.-]{10,}|npm_\w{30,}|pypi-[\w-]{30,}|dckr_pat_[\w-]{16,}|"
            r"nvapi-[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|r8_\w{20,}|wandb_v1_\w+|ssh-(?:rsa|ed25519) [\w+/=]{30,}[^\n]*)"
        ),
        GONE,
    ),
    (re.compile(r"\b(Bearer|Basic|Digest|Negotiate)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {GONE}"),
    (
        # name=value and name: value, "name": "value"
        re.compile(
            rf"(?im)((?<![\w-])-{{0,2}}{_PRIVATE_WORD}[\"']?\s*[:=]\s*[\"']?)(?!\(removed\)|\w+ \(removed\))([^\s\"',;&]{{3,}})"
        ),
        rf"\1{GONE}",
    ),
    (re.compile(rf"(?im)((?<![\w-])--{_PRIVATE_WORD}\s+[\"']?)(?!\(removed\))([^\s\"',;&-][^\s\"',;&]{{2,}})"), rf"\1{GONE}"),
)

_UUID = re.compile(
    r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b|(?<=GPU-)[0-9a-fA-F]{8,16}\b"
)
_STAND_IN = re.compile(r"0000\d{4}-0000-0000-0000-000000000000|0{8,}\d{1,8}")
_LONG_HEX = re.compile(r"(?<![\w])[0-9a-fA-F]{32,}(?![\w])")
_MAC = re.compile(
    r"(?<![0-9a-fA-F:.-])(?:[0-9a-fA-F]{2}[:-]){5,19}[0-9a-fA-F]{2}(?![0-9a-fA-F:-])|(?<![\w.])(?:[0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}(?![\w.])"
)
_SERIAL = re.compile(
    r"(?im)(\b(?:serial(?:[ _-]?(?:number|no|num))?|asic_serial|product_serial|fru_id|board[ _-]?id|unique[ _-]?id|"
    r"service[ _-]?tag|asset[ _-]?tag|machine[ _-]?id|boot[ _-]?id|chassis[ _-]?id|s/n|sn|part[ _-]?serial|imei|hardware uuid|"
    r"provisioning udid)\b(?: \(\w+\))?[\"']?\s*(?:[:=]|\s#)\s*[\"']?)"
    r"(?!\((?:left out|removed)\))([^\s\"',;|][^\n\"',;|]*)"
)
_NOBODYS = ("0.0.0.0", "127.0.0.1", "255.255.255.255")  # noqa: S104 -- nothing is bound here
_IPV4 = re.compile(r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d]|\.\d)")
# A version of four parts, such as that of NVIDIA's libraries, is told by what stands before or after it.
_VERSION_BEFORE = re.compile(
    r"(?:[=<>~!]=|[=<>~!]=\s|\bv|cu1\d[ (=-]+|version[\s:=(]*|"
    r"(?:nvidia|intel|cudnn|cublas|cuda|rocm|torch|onednn|mkl|nccl|driver)[\w.-]*[\s:=(_-]+)$",
    re.IGNORECASE,
)
_VERSION_AFTER = re.compile(r"(?:-(?:py\d|cp\d|\d)|\+|\.whl|\.tar|_amd64|-\d|ubuntu|\))")
_HEXCOLON = re.compile(r"(?<![\w:.])[0-9a-fA-F:]{2,45}(?:%\w+)?(?![\w:])")
_CLOUD_HOST = re.compile(r"\b(?:ip|ec2)(?:-\d{1,3}){4}(?:[\w.-]*)")
_HOME = re.compile(
    r"(?P<posix>(?:/var)?/(?:export/)?(?:home|Users)/(?!(?:linuxbrew)\b)(?P<user>[^/\s:'\",;()<>]+))|(?P<root>(?<![\w/.-])/root(?=[/\s:'\",;)]|$))"
    r"|(?P<windows>[A-Za-z]:[\\/]+(?:Users|Documents and Settings)[\\/]+(?!x+[\\/])(?P<winuser>[^\\/:'\"<>|\n,;]+))",
)
_AT_HOST = re.compile(r"(?<![\w.+/:-])([A-Za-z_][\w.+-]*)@([A-Za-z0-9][\w.-]*)")
_NAMED_USER = re.compile(r"(?im)(?:\b(?:user(?:name)?|logname|owner|login|uid=\d+)\s*[:=(]\s*[\"']?)([A-Za-z_][\w.-]{1,31})")
_NAMED_HOST = re.compile(
    r"(?im)\b(?:host[ _-]?name|nodename|node[ _-]?name|computer[ _-]?name|fqdn|\"?host\"?)\s*[:=]\s*"
    r"[\"']?([A-Za-z0-9][\w.-]{1,63})"
)
_SYSLOG = re.compile(
    r"(?m)^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.+Z-]+) ([A-Za-z][\w.-]*) [\w./-]+(?:\[\d+\])?: "
)
_UNAME = re.compile(r"(?m)^Linux ([A-Za-z0-9][\w.-]*) \d+\.\d+\S* ")
_INNER_HOST = re.compile(
    r"\b[A-Za-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){0,6}\.(?:local|lan|internal|intranet|corp|home|localdomain|priv|private)\b(?!\.?\w)",
    re.IGNORECASE,
)
_URL_HOST = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]{0,15}://)(?P<gone>\(removed\)@)?(?P<host>[A-Za-z0-9][\w.-]*)(?P<port>:\d+)?", re.IGNORECASE
)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")


def bundle_text(facts: Facts, names: Sequence[str] = (), *, toml: bool = False) -> str:
    """The facts as a document to pass on, in JSON or TOML. `names` are what the user and the machine are called.

    Raises EnvkitError where something that names a person, a machine or a secret could not be taken out.
    """
    document = scrub(facts_document(facts), names)
    return as_toml(document) if toml else json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def scrub(document: Mapping[str, Any], names: Sequence[str] = ()) -> dict[str, Any]:
    """The document without what names people, machines and secrets."""
    cleaner = Cleaner(names, list(_texts(document)))
    cleaned = {name: cleaner.part(name, value) for name, value in document.items()}
    left = sorted({what for text in _texts(cleaned) for what in cleaner.left_in(text)})
    if left:
        raise EnvkitError(
            f"the report is not written: {', '.join(left)} could not be taken out of it",
            hint="write the report by hand from: envkit detect --format json",
        )
    return cleaned


def _texts(value: Any) -> Iterator[str]:
    """Every text in a document, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


class Cleaner:
    """Replaces what it knows to be private, the same thing by the same stand-in everywhere."""

    def __init__(self, names: Iterable[str], texts: Iterable[str]) -> None:
        self.ids: dict[str, str] = {}
        found = set(names)
        for text in texts:
            found |= set(_learned(text))
        words = {part for name in found for part in (name, name.partition(".")[0]) if _is_name(part)}
        # The longer first: a machine is often called after its user.
        self.words = tuple(sorted((word for word in words if word.lower() not in _TECHNICAL), key=len, reverse=True))
        alternatives = "|".join(re.escape(word) for word in self.words)
        self.pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{alternatives})(?![A-Za-z0-9])", re.IGNORECASE) if self.words else None

    # ---- parts of the document -----------------------------------------------------------------------------------

    def part(self, name: str, value: Any) -> Any:
        """A table of the document, cleaned as its meaning asks for."""
        if name == "schema":
            return value
        if name == "machine" and isinstance(value, Mapping):
            return {key: self._machine(key, inner) for key, inner in value.items()}
        if name == "python" and isinstance(value, Mapping):
            return {
                key: {package: self._version(text) for package, text in inner.items()} if key == "packages" else self.any(inner)
                for key, inner in value.items()
            }
        if name == "env" and isinstance(value, Mapping):
            return {key: GONE if _SECRET_KEY.search(key) else self.any(inner) for key, inner in value.items()}
        if name == "torch" and isinstance(value, Mapping):
            return {
                key: self._version(inner) if key in ("version", "cuda", "hip", "xpu") else self.any(inner)
                for key, inner in value.items()
            }
        return self.any(value)

    def _machine(self, key: str, value: Any) -> Any:
        if key == "user_groups" and isinstance(value, list):
            return list(dict.fromkeys(group if group in _GROUPS or group.isdigit() else "(group)" for group in value))
        if key == "system_packages" and isinstance(value, Mapping):
            return {package: self._version(text) for package, text in value.items()}
        if key in ("driver", "drivers"):
            return self._versions(value)
        if key in ("devices", "devices_denied", "modules", "os", "os_id", "arch", "libc", "glibc"):
            return value
        return self.any(value)

    def _versions(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._versions(inner) for key, inner in value.items()}
        return self._version(value) if isinstance(value, str) else value

    def _version(self, value: Any) -> Any:
        # A version may look like an address; whatever else stands here is looked at like any text.
        if isinstance(value, str) and re.fullmatch(r"[\w.+:~!-]{1,80}", value) and not self._names_somebody(value):
            return value
        return self.any(value)

    def _names_somebody(self, text: str) -> bool:
        return bool(self.pattern and self.pattern.search(text)) or any(pattern.search(text) for pattern, _ in _SECRETS)

    def any(self, value: Any) -> Any:
        """A value of any kind, its texts cleaned."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): GONE if _SECRET_KEY.search(str(key)) and isinstance(inner, str) else self.any(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.any(inner) for inner in value]
        return value

    # ---- a text --------------------------------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """The text without secrets, ids, addresses, home folders and names."""
        for pattern, replacement in _SECRETS:
            text = pattern.sub(replacement, text)
        text = _HOME.sub(_home, text)
        text = _EMAIL.sub("(email)", text)
        text = _SERIAL.sub(rf"\1{GONE}", text)
        text = _UUID.sub(self._stand_in, text)
        text = _LONG_HEX.sub(lambda found: found[0] if _STAND_IN.fullmatch(found[0]) else "(id)", text)
        text = _MAC.sub("xx:xx:xx:xx:xx:xx", text)
        text = _CLOUD_HOST.sub("(host)", text)
        text = _URL_HOST.sub(_url, text)
        text = _INNER_HOST.sub("(host)", text)
        text = _AT_HOST.sub(_account, text)
        text = _UNAME.sub(lambda found: found[0].replace(found[1], "(host)", 1), text)
        text = _IPV4.sub(_address, text)
        text = _HEXCOLON.sub(lambda found: "(address)" if _is_ipv6(found[0]) else found[0], text)
        return self.pattern.sub("(name)", text) if self.pattern else text

    def _stand_in(self, found: re.Match[str]) -> str:
        if _STAND_IN.fullmatch(found[0]):
            return found[0]
        number = self.ids.setdefault(found[0].lower(), f"{len(self.ids) + 1:08d}")
        return f"{number}-0000-0000-0000-000000000000" if "-" in found[0] else number.rjust(16, "0")

    def left_in(self, text: str) -> Iterator[str]:
        """What of all this is still in a text, by its kind."""
        kinds: tuple[tuple[str, Callable[[str], bool]], ...] = (
            ("a secret", lambda each: any(pattern.sub(replacement, each) != each for pattern, replacement in _SECRETS)),
            ("a home folder", lambda each: _HOME.search(each) is not None),
            (
                "an address",
                lambda each: any(_is_ipv6(found[0]) for found in _HEXCOLON.finditer(each)) or _MAC.search(each) is not None,
            ),
            ("an e-mail address", lambda each: _EMAIL.search(each) is not None),
            ("an id", lambda each: any(not _STAND_IN.fullmatch(found[0]) for found in _UUID.finditer(each))),
            ("a name", lambda each: bool(self.pattern and self.pattern.search(each))),
        )
        for what, is_there in kinds:
            if is_there(text):
                yield what


def _is_name(word: str) -> bool:
    return len(word) > 1 and word.lower() not in _EVERYBODYS and not word.replace(".", "").isdigit()


def _learned(text: str) -> Iterator[str]:
    """Names of people and machines that a text tells of."""
    for found in _HOME.finditer(text):
        name = found["user"] or found["winuser"]
        if name:
            yield name
    for found in _AT_HOST.finditer(text):
        if "." not in found[2] or not _KNOWN_HOSTS.search(found[2]):
            yield from (found[1], found[2])
    for pattern in (_NAMED_USER, _NAMED_HOST, _SYSLOG, _UNAME):
        for found in pattern.finditer(text):
            yield found[1].rstrip(".")
    for found in _INNER_HOST.finditer(text):
        yield found[0]


def _home(found: re.Match[str]) -> str:
    # On Windows the length of a path may be what is wrong.
    name = found["winuser"]
    return found[0][: -len(name)] + "x" * len(name) if name else "~"


def _account(found: re.Match[str]) -> str:
    return f"{found[1]}@(host)" if found[1].lower() in _EVERYBODYS else "(name)@(host)"


def _url(found: re.Match[str]) -> str:
    host = found["host"]
    kept = host if _KNOWN_HOSTS.search(host) or host in ("localhost",) or found["scheme"].lower() == "file://" else "(host)"
    return f"{found['scheme']}{found['gone'] or ''}{kept}{(found['port'] or '') if kept == host else ''}"


def _address(found: re.Match[str]) -> str:
    text, start, end = found.string, found.start(), found.end()
    if found[0] in _NOBODYS:
        return found[0]
    if _VERSION_BEFORE.search(text[max(0, start - 60) : start]) or (
        _VERSION_AFTER.match(text[end : end + 12]) and text[start - 1 : start] != "@"
    ):
        return found[0]
    return "x.x.x.x"


def _is_ipv6(text: str) -> bool:
    text = text.partition("%")[0]
    if text.count(":") < 2 or not re.search(r"[0-9a-fA-F]", text) or ("::" not in text and text.count(":") != 7):
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return text != "::1"


# ---- TOML --------------------------------------------------------------------------------------------------------


def as_toml(document: Mapping[str, Any]) -> str:
    """A document of tables as TOML; what is None is left out."""
    return "\n".join(_table(document, ())).strip() + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    below: list[tuple[str, Any]] = []
    for key, value in table.items():
        if value is None:
            continue
        if isinstance(value, Mapping) or (isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value)):
            below.append((key, value))
        else:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in below:
        inner = (*path, key)
        name = ".".join(_key(part) for part in inner)
        for each in [value] if isinstance(value, Mapping) else value:
            yield ""
            yield f"[{name}]" if isinstance(value, Mapping) else f"[[{name}]]"
            yield from _table(each, inner)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _quoted(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(each) for each in value if each is not None) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(key))} = {_value(inner)}" for key, inner in value.items()) + " }"
    return _quoted(str(value))


def _quoted(text: str) -> str:
    escaped = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return re.sub(r"\\u([dD][89a-fA-F][0-9a-fA-F]{2})", "?", escaped)
