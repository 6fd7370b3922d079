"""Labels, groups and weights from any array or frame to one checked, frozen object.

Nothing here repairs data, and nothing imports a library that the caller has not already brought.
"""

from r2b.inputs.attributes import Continuous, ContinuousSettings, Membership
from r2b.inputs.dataset import Dataset, Schema, read
from r2b.inputs.groups import Groups
from r2b.inputs.labels import Labels
from r2b.inputs.mixtures import Mixtures
from r2b.inputs.vocabulary import Vocabulary

__all__ = ["Continuous", "ContinuousSettings", "Dataset", "Groups", "Labels", "Membership", "Mixtures", "Schema", "Vocabulary", "read"]
