"""Checks an output of fair labels against its certificate, from the data alone."""

from r2b._verify.checking import Check, Verification, verify

__all__ = ["Check", "Verification", "verify"]
