"""Names of classes, groups and columns in running text: whatever they hold, one stays on its line."""

from __future__ import annotations

from r2b.inputs.vocabulary import plain_value

_LONGEST = 200  # characters; the crossing of many attributes has room, a document that slipped into a cell does not


def written(name: object) -> str:
    r"""Write a name on one line: what cannot be printed is escaped, and the middle of a very long name left out.

    Examples
    --------
    >>> written("Prof-school"), written("two\nlines"), len(written("x" * 5000))
    ('Prof-school', 'two\\nlines', 200)
    """
    text = str(plain_value(name))
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    half = (_LONGEST - 3) // 2
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3 - half]}...{text[-half:]}"
