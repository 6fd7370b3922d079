"""Real data that comes with the package, ready for an example: no download, no optional library."""

from r2b.datasets.adult import AdultTable, load_adult

__all__ = ["AdultTable", "load_adult"]
