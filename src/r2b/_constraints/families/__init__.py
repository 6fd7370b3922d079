"""Which groups must agree, and how closely: from what the user asks for to one constraint over the table's cells."""

from r2b._constraints.bounds import BoundName
from r2b._constraints.families.fitted import Absent, Families
from r2b._constraints.families.request import Family, FamilyChoice, Request
from r2b._constraints.families.resolve import resolve

__all__ = ["Absent", "BoundName", "Families", "Family", "FamilyChoice", "Request", "resolve"]
