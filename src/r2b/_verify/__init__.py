"""Checks an output of fair labels against its certificate, from the data alone."""

from r2b._verify.checking import Verification, verify
from r2b._verify.claim import Check

__all__ = ["Check", "Verification", "verify"]
