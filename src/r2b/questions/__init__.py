"""What users ask before they decide: what parity costs, what a budget buys, how two bounds compare."""

from r2b.questions.budget import smallest_epsilon
from r2b.questions.comparison import Comparison, compare
from r2b.questions.frontier import Frontier, Point, frontier

__all__ = ["Comparison", "Frontier", "Point", "compare", "frontier", "smallest_epsilon"]
