"""Rows elsewhere that count in parts: uncertain groups and continuous attributes, with one pass over blocks where groups take one."""
