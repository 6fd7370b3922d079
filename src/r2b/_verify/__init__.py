"""Checks an output of fair labels against its certificate, from the data alone."""
