"""Several labels per row: tags, each of which is there or not, debiased one by one.

Neither the bounds nor the labels couple tags, so that the closest fair tags are the closest of each
tag alone: a binary problem per tag, over the same rows and groups. Their optima and their
certificates add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np

from r2b._constraints.bounds import BOUNDS, CHOICES
from r2b._constraints.epsilon import epsilon_per_class
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.request import Family, Request, one_of
from r2b._data.arrays import Array, Floats, plain_value
from r2b._data.by_class import numbers_per_class
from r2b._data.compute import seed_of
from r2b._data.dataset import read
from r2b._data.frames import Backend, frame_of
from r2b._data.tags import Tags, read_tags
from r2b._data.values import listed, warn, written
from r2b._labels.debiasing import request_and_settings
from r2b._labels.labels import FairLabels
from r2b._labels.realised import Realised
from r2b._labels.summary import why_apart
from r2b._labels.task import Task
from r2b._plot import Measure, measures, percent
from r2b._solve.certificate import PROVEN, Certificate
from r2b._solve.solvers import Status
from r2b.errors import DataWarning, ParameterError, UnseenError

if TYPE_CHECKING:
    from r2b.report.tables import TableReport

TagForm = Literal["soft", "round", "sample"]
Asks = TypeVar("Asks", Request, Family)
WITHOUT = ("costs", "offsets", "outcomes", "normalize")


@dataclass(frozen=True, eq=False)
class TagCertificate:
    """What holds for all tags together.

    Attributes
    ----------
    disparity, disparity_before : float
        The largest difference between the shares of two groups with some tag.
    disparity_by_tag, disparity_before_by_tag, epsilon : ndarray of shape (n_tags,)
    excess : float
        The largest amount by which a share lies outside its bound.
    objective, lower_bound : float
        Sums over the tags; no labels that meet epsilon have a smaller objective.
    relative_gap : float
        That of the tag where it is largest.
    distance : float
        Mean over the rows of the squared distance between old and new tags.
    expected_changes : float
        Mean number of tags per row that change.
    holds : bool
        Whether every tag is proven fair and optimal.
    """

    disparity: float
    disparity_before: float
    disparity_by_tag: Floats
    disparity_before_by_tag: Floats
    epsilon: Floats
    excess: float
    objective: float
    lower_bound: float
    relative_gap: float
    distance: float
    expected_changes: float
    holds: bool

    @classmethod
    def of(cls, proofs: Sequence[Certificate]) -> Self:
        """Put the certificates of tags together."""

        def sum_of(name: str) -> float:
            return float(sum(getattr(each, name) for each in proofs))

        disparity = np.array([each.disparity for each in proofs])
        before = np.array([each.disparity_before for each in proofs])
        return cls(
            disparity=float(disparity.max()),
            disparity_before=float(before.max()),
            disparity_by_tag=disparity,
            disparity_before_by_tag=before,
            epsilon=np.array([each.epsilon.min() for each in proofs]),
            excess=max(each.excess for each in proofs),
            objective=sum_of("objective"),
            lower_bound=sum_of("lower_bound"),
            relative_gap=max((each.relative_gap for each in proofs), key=abs),
            distance=0.5 * sum_of("distance"),  # a tag counts in two classes
            expected_changes=sum_of("expected_changes"),
            holds=all(each.holds for each in proofs),
        )


@dataclass(frozen=True, eq=False, repr=False)
class FairTags:
    """Fair tags, what they cost, and the proof.

    Attributes
    ----------
    names : ndarray of shape (n_tags,)
    labels : tuple of FairLabels
        The result of each tag, as labels of the classes 0 and 1.
    came_as : str
        The library that the tags came in.

    Examples
    --------
    >>> import r2b
    >>> Y = {"cat": [1, 0, 1, 1, 0, 0], "dog": [0, 1, 1, 0, 1, 0]}
    >>> sex = ["f", "f", "f", "m", "m", "m"]
    >>> fair = r2b.debias(Y, multilabel=True, sensitive_features=sex)
    >>> fair
    <FairTags: 2 tags, solved, disparity 0.3333 -> 0.0000>
    >>> fair.soft_labels.round(2)[0]
    array([0.75, 0.  ])
    """

    names: Array
    labels: tuple[FairLabels, ...]
    came_as: str = ""

    def __getitem__(self, name: Any) -> FairLabels:
        """Return the result of one tag."""
        names: list[Any] = self.names.tolist()
        one_of("tag", name, names)
        return self.labels[names.index(name)]

    @property
    def rows(self) -> Any:
        """The rows of one tag, which are those of all; None for tags loaded from a file."""
        return self.labels[0].rows

    @property
    def epsilon(self) -> dict[Any, float]:
        """The largest accepted difference of each tag."""
        return dict(zip(self.names.tolist(), self.certificate.epsilon.tolist(), strict=True))

    @property
    def certificate(self) -> TagCertificate:
        """What holds for all tags; that of one tag is ``fair[tag].certificate``."""
        return TagCertificate.of([each.certificate for each in self.labels])

    @property
    def status(self) -> Status:
        """The status of all tags: that of the first that is not solved, if there is one."""
        every = [each.status for each in self.labels]
        worst = next((each for each in every if not each.ok), None)
        return worst or (Status.SOLVED if Status.SOLVED in every else every[0])

    @property
    def disparity(self) -> float:
        """The largest difference between the shares of two groups with some tag, certified."""
        return self.certificate.disparity

    @property
    def groups(self) -> Array:
        """Names of the groups, family after family."""
        return self.labels[0].groups

    @property
    def prices(self) -> Floats:
        """The price of each tag in each group, (n_groups, n_tags): of having it over not."""
        return np.column_stack([each.prices[:, 1] - each.prices[:, 0] for each in self.labels])

    @property
    def soft_labels(self) -> Floats:
        """The fair probability of each tag, of shape (N, n_tags)."""
        return np.column_stack([each.soft_labels[:, 1] for each in self.labels])

    def round(self, random_state: Any = 0, *, key: Any = None) -> Array:
        """Pick tags so that each group has its fair number of each, within one row.

        Parameters
        ----------
        random_state : int, Generator or None
            The same number gives the same draws.
        key : array-like of shape (N,), optional
            Tells rows apart; by default their place.

        Returns
        -------
        ndarray of shape (N, n_tags)
            0 or 1.
        """
        return self._drawn("round", random_state, key)

    def sample(self, random_state: Any = 0, *, key: Any = None) -> Array:
        """Draw every tag of every row; the parameters are those of :meth:`round`."""
        return self._drawn("sample", random_state, key)

    def _drawn(self, form: str, random_state: Any, key: Any) -> Array:
        columns = [
            getattr(fair, form)(seed, key=key)
            for fair, seed in zip(self.labels, seeds_of(random_state, self.names), strict=True)
        ]
        return np.column_stack([np.asarray(column) for column in columns])

    def frame(
        self,
        form: TagForm = "soft",
        *,
        random_state: Any = 0,
        key: Any = None,
        backend: Backend | None = None,
    ) -> Any:
        """Return the tags as a frame with a column each, of the kind that came in.

        Parameters
        ----------
        form : {"soft", "round", "sample"}
            Probabilities, one class per row rounded, or one class per row drawn.
        random_state, key
            As for :meth:`round`.
        backend : {"pandas", "polars", "pyarrow"}, optional
            Library of the frame: pandas by default or, where it is not installed, Polars.
        """
        one_of("form", form, TagForm)
        matrix = self.soft_labels if form == "soft" else self._drawn(form, random_state, key)
        columns = {plain_value(name): matrix[:, k] for k, name in enumerate(self.names)}
        data = self.labels[0].dataset
        return frame_of(columns, backend, self.came_as, None if data is None else data.index)

    def transform(
        self,
        Y: Any,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
        form: TagForm = "soft",
        random_state: Any = 0,
    ) -> Array:
        """Apply the prices to new rows.

        Parameters
        ----------
        Y, sensitive_features, control_features, sample_weight
            As for ``debias``; the tags must be those that were fitted, in their order.
        form : {"soft", "round", "sample"}
            Probabilities, one class per row rounded, or one class per row drawn.
        random_state : int, Generator or None
            The same number gives the same draws.

        Returns
        -------
        ndarray of shape (n, n_tags)
        """
        one_of("form", form, TagForm)
        tags = read_tags(Y)
        if tags.names.tolist() != self.names.tolist():
            raise UnseenError(
                f"The tags are {tags.names.tolist()}, but {self.names.tolist()} were fitted.",
                remedy="Pass the same columns in the same order.",
                names=tags.names.tolist(),
            )
        found = []
        for k, seed in enumerate(seeds_of(random_state, self.names)):
            fair, p = self.labels[k], tags.matrix[:, k]
            soft = fair.schema.is_soft
            y = np.column_stack([1.0 - p, p]) if soft else fair.classes[p.astype(np.uint8)]
            drawn = fair.transform(
                y,
                sensitive_features=sensitive_features,
                control_features=control_features,
                sample_weight=sample_weight,
                form=form,
                random_state=seed,
            )
            found.append(drawn[:, 1] if form == "soft" else np.asarray(drawn))
        return np.column_stack(found)

    def to_frame(self, *, backend: Backend | None = None) -> Any:
        """Return the share of every group with every tag, before and after, as a frame."""
        n_groups, n_tags = len(self.groups), len(self.names)
        proofs = [each.certificate for each in self.labels]
        return frame_of(
            {
                "tag": np.repeat(self.names, n_groups),
                "group": np.tile(self.groups, n_tags),
                "before": np.concatenate([proof.means_before[:, 1] for proof in proofs]),
                "after": np.concatenate([proof.means[:, 1] for proof in proofs]),
            },
            backend,
            self.came_as,
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw how far groups are apart in every tag: a line from before to after.

        Of many tags those that differed most are drawn.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on new Axes by default.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> import r2b
        >>> Y = {"cat": [1, 0, 1, 1, 0, 0], "dog": [0, 1, 1, 0, 1, 0]}
        >>> fair = r2b.debias(Y, multilabel=True, sensitive_features=["f", "f", "f", "m", "m", "m"])
        >>> print(fair.plot().get_title("left"))
        Disparity of 2 tags
        33.33 % before, 0.00 % after
        """
        proof = self.certificate
        found = [
            Measure(name, before, (after, before), beside=f"{percent(after)} after")
            for name, before, after in zip(
                self.names.tolist(),
                proof.disparity_before_by_tag.tolist(),
                proof.disparity_by_tag.tolist(),
                strict=True,
            )
        ]
        change = f"{percent(proof.disparity_before)} before, {percent(proof.disparity)} after"
        title = [f"Disparity of {len(found)} tags", change]
        return measures(ax, "FairTags", title, "disparity", found)

    def report(
        self, path: str | PathLike[str] | None = None, *, form: TagForm = "soft", **options: Any
    ) -> TableReport:
        """Write a report: a table of all tags, and the report of each.

        Parameters
        ----------
        path : path-like, optional
            A page (``.html``), Markdown (``.md``) or all facts (``.json``).
        form : {"soft", "round", "sample"}
            The form of the tags that you used.
        **options
            As for :meth:`r2b.FairLabels.report`.
        """
        from r2b.report.tables import report_of_tags

        one_of("form", form, TagForm)
        seeds = seeds_of(options.pop("random_state", 0), self.names)
        report = report_of_tags(self, form, seeds, **options)
        if path is not None:
            report.save(path)
        return report

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything but the rows to one JSON file that ``r2b.load`` reads."""
        from r2b._labels.storage import tags_content, write_json

        write_json(
            tags_content(self.names.tolist(), [each.to_json() for each in self.labels]), path
        )

    def __str__(self) -> str:
        return summarize_tags(self)

    def __repr__(self) -> str:
        proof = self.certificate
        return (
            f"<FairTags: {len(self.names)} tags, {self.status.value}, disparity "
            f"{proof.disparity_before:.4f} -> {proof.disparity:.4f}>"
        )


def summarize_tags(
    fair: FairTags, form: str = "soft", found: Sequence[Realised] | None = None
) -> str:
    """Describe the tags in a table.

    Parameters
    ----------
    fair : FairTags
    form : str
    found : sequence of Realised, optional
        What holds for one class per row of each tag; by default probabilities are described.
    """
    proof, many = fair.certificate, 20
    before, after = proof.disparity_before_by_tag, proof.disparity_by_tag
    columns = {"before": before, "after": after}
    lines = [f"{repr(fair)[1:-1]}"]
    if found is not None:
        columns = {"before": before, "after": np.array([each.disparity for each in found])}
        columns["as probabilities"] = after
        lines = [
            f"FairTags: {len(fair.names)} tags, {fair.status.value}, disparity "
            f"{proof.disparity_before:.4f} -> {columns['after'].max():.4f} in these labels, one "
            f"class per row ({form})",
            f"  {proof.disparity:.4f} as probabilities",
        ]
        above = [each.excess for each in found]
        worst = above.index(max(above))
        if above[worst] > PROVEN:
            name, why = written(str(fair.names[worst])), why_apart(fair.labels[worst], form)
            lines.append(f"  {above[worst]:.4f} above the bound of {name}: {why}")
    widths = {name: max(10, len(name) + 2) for name in columns}
    heads = "".join(f"{name:{width}}" for name, width in widths.items())
    lines.append(f"  {'tag':24}{heads}epsilon")
    for k in np.argsort(-before, kind="stable")[:many]:
        figures = "".join(f"{columns[name][k]:<{width}.4f}" for name, width in widths.items())
        lines.append(f"  {written(str(fair.names[k])):24}{figures}{proof.epsilon[k]:g}")
    more = len(fair.names) - many
    return "\n".join([*lines, f"  and {more} more"] if more > 0 else lines)


def seeds_of(random_state: Any, tags: Sized) -> list[int]:
    """Return a seed for each tag: what one tag draws says nothing about the others."""
    words = np.random.SeedSequence(seed_of(random_state)).generate_state(len(tags))
    return [int(word) for word in words]


def tasks_of(
    Y: Any, data: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Tags, list[Task]]:
    """Return the tags that were read, and the binary problem of each.

    Rows, groups and weights are read once. The share without a tag is one minus that with it, so
    that the latter alone is bounded.

    Parameters
    ----------
    Y : array-like or frame of shape (N, n_tags)
    data : mapping
        ``sensitive_features``, ``control_features`` and ``sample_weight``.
    options : mapping
        Those of :func:`r2b.debias`; ``epsilon`` and ``target`` may be given by tag.
    """
    tags = read_tags(Y)
    names = tags.names.tolist()
    request, settings = request_and_settings(options, without=WITHOUT)
    rows = read(tags.of(0), **data, missing=request.missing)
    found = [
        Task.of(replace(rows, labels=tags.of(place)), asked, settings)
        for place, asked in enumerate(requests_of(request, names))
    ]
    warn_of_doubts(found[0])
    if still := tags.constant:
        problem = f"No row has the tag, or every row has it: {listed(still)}."
        remedy = "Leave it out, or check the column; it stays as it is."
        warn(DataWarning(problem, remedy=remedy, tags=still))
    return tags, found


def requests_of(request: Request, names: Sequence[Any]) -> list[Request]:
    """Return what is asked of each tag: the share of rows that have it is bounded."""
    wanted, families = _by_tag(request, request.bound, names), request.families
    if isinstance(families, str) or not isinstance(families, Sequence):
        return wanted
    found = [
        _by_tag(each, each.bound or request.bound, names)
        if isinstance(each, Family)
        else [each] * len(names)
        for each in families
    ]
    return [
        replace(each, families=[family[place] for family in found])
        for place, each in enumerate(wanted)
    ]


def _by_tag(asked: Asks, bound: str, names: Sequence[Any]) -> list[Asks]:
    one_of("bound", bound, CHOICES)
    epsilons, targets = [asked.epsilon] * len(names), [asked.target] * len(names)
    if asked.epsilon is not None:
        numbers = epsilon_per_class(asked.epsilon, names, largest=BOUNDS[bound].largest)
        epsilons = [{1: each} for each in numbers.tolist()]
    if asked.target is not None and not isinstance(asked.target, str):
        shares = numbers_per_class("target", asked.target, names)
        if not ((shares >= 0) & (shares <= 1)).all():
            remedy = "Pass the share of rows that are to have each tag, from 0 to 1."
            problem = f"target is {asked.target!r}."
            raise ParameterError(problem, remedy=remedy, target=asked.target)
        targets = [{0: 1.0 - share, 1: share} for share in shares.tolist()]
    return [
        replace(asked, epsilon=epsilon, target=target)
        for epsilon, target in zip(epsilons, targets, strict=True)
    ]


def put_together(tags: Tags, found: Sequence[FairLabels]) -> FairTags:
    """Return the results of tags as one."""
    return FairTags(tags.names, tuple(found), tags.vocabulary.library)
