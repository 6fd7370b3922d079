"""Functions of a continuous attribute that stand where group indicators would: centred and orthonormal on the fitted rows.

Bounded are the moments ``sum_i w_i b_j(s_i) x_ik / sum_i w_i``. It knows values of one attribute
and their weights, never a label.
"""

from r2b._data.basis.fitted import Basis, Choice, fit_basis
from r2b._data.basis.functions import numeric_values

__all__ = ["Basis", "Choice", "fit_basis", "numeric_values"]
