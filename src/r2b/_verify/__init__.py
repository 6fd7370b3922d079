"""Checks an output of fair labels against its certificate, from the data alone."""

from r2b._verify.checking import verify
from r2b._verify.claims import Check, Verification

__all__ = ["Check", "Verification", "verify"]
