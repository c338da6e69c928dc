"""The command line. Importing this stays cheap: each command's module is loaded when it is called."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs `envkit` and ends the process with the exit code of INTERFACE.md."""
    if sys.argv[1:] == ["--version"]:
        # Asked by scripts at every start; not worth the option parser.
        from envkit import __version__

        sys.stdout.write(f"envkit {__version__}\n")
        return
    from envkit.cli.app import run

    sys.exit(run(sys.argv[1:]))
