"""`python -m envkit`."""

from envkit.cli import main

main()
