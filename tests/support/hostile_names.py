"""A table whose names try to break every page: markup, other scripts and directions, 200
characters, emoji and quotes.
"""

from __future__ import annotations

import numpy as np

N_CLASSES, N_GROUPS = 50, 20

NAMES = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "\"quoted\" & 'single' `ticks`",
    "مهندس معماري أول في الشركة",
    "עובדת סוציאלית בכירה (בית חולים)",
    "高级软件工程师与数据科学家以及机器学习研究人员",
    "データサイエンティスト兼プログラマー",
    "👩🏽‍🔬👨‍👩‍👧‍👦🏳️‍🌈 science",
    "W" * 200,
    "an endless name without any end, " * 6 + "or almost",
    "a\u202eb\u2066c",
    "e\u0301\u0302\u0303\u0304" * 12,
    "two\nlines\tand a tab",
    "https://example.org/a/very/long/path?with=query&and=more#fragment",
    "ﷺ﷽",
]


def name(place: int, kind: str) -> str:
    """Return one of the names, told apart by a number at its end."""
    return NAMES[place % len(NAMES)] + ("" if place < len(NAMES) else f" {kind} {place}")


def hostile(n: int = 6000, seed: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return labels of 50 classes in 20 groups; the first group has its first class far more
    often.
    """
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.arange(N_GROUPS), rng.integers(0, N_GROUPS, n - N_GROUPS)])
    rare = rng.random(n) < 0.02 + 0.3 * (group % 5 == 0)
    place = np.where(rare, group % 7, rng.integers(0, N_CLASSES, n))
    place[:N_CLASSES] = np.arange(N_CLASSES)
    classes = np.array([name(k, "class") for k in range(N_CLASSES)], dtype=object)
    groups = np.array([name(g, "group") for g in range(N_GROUPS)], dtype=object)
    return classes[place], {"<b>رمز</b> 高级 " + "x" * 60: groups[group]}
