"""Prices for a problem: the problem itself, the row oracle, the solvers, and the certificate of what they found."""
