"""Measures of labels and predictions, with intervals. No solver is used here, so a metric can contradict one."""

from r2b.metrics.chance import SamplingLevel, sampling_level
from r2b.metrics.comparisons import AbsentGroup
from r2b.metrics.demographic import (
    GroupMeans,
    ParityByClass,
    demographic_parity,
    demographic_parity_by_class,
    group_means,
)
from r2b.metrics.explained import Explained, explained_variation
from r2b.metrics.intervals import Interval, parity_interval
from r2b.metrics.odds import (
    OddsByClass,
    equal_opportunity,
    equal_opportunity_by_class,
    equalized_odds,
    equalized_odds_by_class,
)
from r2b.metrics.performance import ErrorParity, Score, error_parity, top_k_accuracy, tv_accuracy
from r2b.metrics.promise import Promise, PromiseLimit, parity_promise
from r2b.metrics.theory import (
    Complexity,
    GeneralizationBound,
    generalization_bound,
    rademacher_complexity,
)

__all__ = [
    "AbsentGroup",
    "Complexity",
    "ErrorParity",
    "Explained",
    "GeneralizationBound",
    "GroupMeans",
    "Interval",
    "OddsByClass",
    "ParityByClass",
    "Promise",
    "PromiseLimit",
    "SamplingLevel",
    "Score",
    "demographic_parity",
    "demographic_parity_by_class",
    "equal_opportunity",
    "equal_opportunity_by_class",
    "equalized_odds",
    "equalized_odds_by_class",
    "error_parity",
    "explained_variation",
    "generalization_bound",
    "group_means",
    "parity_interval",
    "parity_promise",
    "rademacher_complexity",
    "sampling_level",
    "top_k_accuracy",
    "tv_accuracy",
]
