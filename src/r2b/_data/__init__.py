"""Labels, groups and weights from any array or frame to one checked, frozen object.

Nothing here repairs data, and nothing imports a library that the caller has not already brought.
"""

from r2b._data.attributes import Continuous, ContinuousSettings, Membership
from r2b._data.cells import Cells
from r2b._data.dataset import Dataset, Labels, Schema, read
from r2b._data.mixtures import Mixtures
from r2b._data.vocabulary import Vocabulary

__all__ = [
    "Cells",
    "Continuous",
    "ContinuousSettings",
    "Dataset",
    "Labels",
    "Membership",
    "Mixtures",
    "Schema",
    "Vocabulary",
    "read",
]
