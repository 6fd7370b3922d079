"""Which groups are compared, and how closely: from what a user asks to one constraint."""

from r2b._constraints.bounds import BoundName
from r2b._constraints.families.fitted import Absent, Families
from r2b._constraints.families.request import Family, Request
from r2b._constraints.families.resolve import resolve
from r2b._data.families import FamilyChoice

__all__ = ["Absent", "BoundName", "Families", "Family", "FamilyChoice", "Request", "resolve"]
