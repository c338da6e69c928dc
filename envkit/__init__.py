"""envkit takes an AI machine from bare to proven."""

__version__ = "0.1.0"
