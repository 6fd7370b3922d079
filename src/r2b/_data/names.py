"""Names of classes, groups and columns in running text: whatever they hold, one stays on its line."""

from __future__ import annotations

import re

from r2b._data.vocabulary import plain_value

_LONGEST = 200  # characters; the crossing of many attributes has room, a document that slipped into a cell does not

_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")  # characters that turn the direction of the text after them
_ISOLATE, _END = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"


def directions_shown(text: str) -> str:
    r"""Show characters that turn the direction of text instead of obeying them: "-18" after one of them would read "81-".

    Examples
    --------
    >>> directions_shown("a\u202eb")
    'a\\u202eb'
    """
    return _DIRECTION.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def directions_kept(text: str) -> str:
    r"""Do the same for a whole text; isolates that are closed, in which names are put on purpose, stay as they are.

    Examples
    --------
    >>> directions_kept("\u2068a\u2069 b") == "\u2068a\u2069 b", directions_kept("\u202e")
    (True, '\\u202e')
    """
    if not _DIRECTION.search(text):
        return text
    parts = text.split(_ISOLATE)
    closed = _END not in parts[0] and all(part.count(_END) == 1 for part in parts[1:])
    if not closed:
        return directions_shown(text)
    return "".join(each if each in (_ISOLATE, _END) else directions_shown(each) for each in re.split(f"([{_ISOLATE}{_END}])", text))


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
