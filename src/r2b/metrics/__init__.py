"""Measures of labels and predictions, with intervals. No solver is used here."""

from r2b.metrics.chance import SamplingLevel, sampling_level
from r2b.metrics.criteria import (
    DisparityByClass,
    demographic_parity_difference,
    demographic_parity_difference_by_class,
    demographic_parity_ratio,
    equal_accuracy_difference,
    equal_false_positives_difference,
    equal_false_positives_difference_by_class,
    equal_opportunity_difference,
    equal_opportunity_difference_by_class,
    equalized_odds_difference,
    equalized_odds_difference_by_class,
)
from r2b.metrics.explained import Explained, explained_variation
from r2b.metrics.groups import AbsentGroup
from r2b.metrics.intervals import Interval, disparity_interval
from r2b.metrics.means import GroupMeans, group_means
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
    "DisparityByClass",
    "ErrorParity",
    "Explained",
    "GeneralizationBound",
    "GroupMeans",
    "Interval",
    "Promise",
    "PromiseLimit",
    "SamplingLevel",
    "Score",
    "demographic_parity_difference",
    "demographic_parity_difference_by_class",
    "demographic_parity_ratio",
    "disparity_interval",
    "equal_accuracy_difference",
    "equal_false_positives_difference",
    "equal_false_positives_difference_by_class",
    "equal_opportunity_difference",
    "equal_opportunity_difference_by_class",
    "equalized_odds_difference",
    "equalized_odds_difference_by_class",
    "error_parity",
    "explained_variation",
    "generalization_bound",
    "group_means",
    "parity_promise",
    "rademacher_complexity",
    "sampling_level",
    "top_k_accuracy",
    "tv_accuracy",
]
