"""Proof by computing: runs the probe in a venv, an image or on a host, and keeps what it found."""

from envkit.verify.proof import PROOF_SCHEMA, proof_document, read_proof, write_proof
from envkit.verify.runner import (
    Aim,
    aim_at_plan,
    aim_at_scheme,
    image_name,
    verify_host,
    verify_hosts,
    verify_image,
    verify_venv,
)

__all__ = [
    "PROOF_SCHEMA",
    "Aim",
    "aim_at_plan",
    "aim_at_scheme",
    "image_name",
    "proof_document",
    "read_proof",
    "verify_host",
    "verify_hosts",
    "verify_image",
    "verify_venv",
    "write_proof",
]
