"""Defaults on many tables: `auto` beside what a user would pick instead, nothing tuned by hand.

Every set is split at random several times. All see the same training rows, encoded alike, and are
judged on the same test rows: negative log-likelihood (of quantities in units of their standard
deviation), accuracy or root mean square error, calibration, the coverage of 90 % intervals.

The settings of `auto` were chosen on splits of the same tables (docs/decisions.md): a little less
is to be expected of tables that nobody here has seen.
"""

import hashlib
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from credo.caching import cache_folder
from credo.data import Dataset, Units, load
from credo.data.named_tables import TARGETS
from credo.evaluation.evaluate import evaluate
from credo.experiments.baselines import Baseline, baselines_for, flat, predictive
from credo.experiments.page import Page, Pattern
from credo.files import atomic_path
from credo.inference import fit
from credo.model import default_model
from credo.predictive import CategoricalPredictive, Predictive, predict

TABLES = tuple(f"tables/{name.lower()}" for name in TARGETS)
UCI = tuple(
    f"uci/{name}"
    for name in ("bostonhousing", "concrete", "power-plant", "wine-quality-red", "yacht")
)
EMBEDDED = ("breast-cancer", "wine", "digits", "diabetes")
LEVEL = 0.9

Scores = dict[str, float]


@dataclass(frozen=True)
class Defaults:
    """Auto on many tables, beside linear models, forests and boosted trees."""

    sets: tuple[str, ...] = (*TABLES, *UCI, *EMBEDDED)
    """Data sets."""
    splits: int = 5
    """Random splits of each."""
    max_rows: int = 12000
    """Training rows at most."""
    methods: tuple[str, ...] = ("auto",)
    """Methods of credo, with their own defaults."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        found: dict[str, dict[str, list[Scores]]] = {}
        for name in self.sets:
            parts = [self._split(name, split, data_dir) for split in range(self.splits)]
            found[name] = {who: [part[who] for part in parts] for who in parts[0]}
        return self._page(found, time.perf_counter() - began)

    def _split(self, name: str, split: int, data_dir: Any) -> dict[str, Scores]:
        """Scores of all on one split; what was computed before a kill is read."""
        store = self._store(name, split)
        if store.is_file():
            return json.loads(store.read_text("utf-8"))
        data = self._cut(load(name, split=split, data_dir=data_dir), split)
        found = {method: self._of_method(method, data, split) for method in self.methods}
        for who, baseline in self._baselines(data).items():
            found[who] = self._of_baseline(baseline, data, split)
        store.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(store) as temporary:
            Path(temporary).write_text(json.dumps(found), "utf-8")
        return found

    def _store(self, name: str, split: int) -> Path:
        settings = {**asdict(self), "sets": None, "splits": None}
        mark = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
        return cache_folder() / "defaults" / mark / f"{name.replace('/', '-')}-{split}.json"

    def _cut(self, data: Dataset, seed: int) -> Dataset:
        if len(data.train.x) <= self.max_rows:
            return data
        chosen = np.random.default_rng(seed).permutation(len(data.train.x))[: self.max_rows]
        train = data.train._replace(x=data.train.x[chosen], y=data.train.y[chosen])
        return replace(data, train=train)

    def _baselines(self, data: Dataset) -> dict[str, Baseline]:
        """Those of scikit-learn, and CatBoost where it is installed."""
        return baselines_for(data) | catboost_for(data)

    def _of_method(self, method: str, data: Dataset, seed: int) -> Scores:
        is_quantity = data.task == "regression"
        x = flat(data.train.x)
        units = Units.standardizing(x, data.train.y if is_quantity else None)
        model = default_model(None if is_quantity else len(data.classes or ()))
        began = time.perf_counter()
        posterior = fit(model, (x, data.train.y), method, seed, units=units, progress=False)
        seconds = time.perf_counter() - began
        return self._scores(predict(posterior, flat(data.test.x)), data, seconds)

    def _of_baseline(self, baseline: Baseline, data: Dataset, seed: int) -> Scores:
        began = time.perf_counter()
        fitted = baseline.fit(flat(data.train.x), data.train.y, seed)
        seconds = time.perf_counter() - began
        return self._scores(predictive(fitted, data, data.test.x), data, seconds)

    def _scores(self, predicted: Predictive, data: Dataset, seconds: float) -> Scores:
        y = np.asarray(data.test.y)
        nll = float(-predicted.log_prob(y).mean())
        if isinstance(predicted, CategoricalPredictive):
            scores = evaluate(predicted, y)
            return {
                "nll": nll, "error": 1 - scores["accuracy"].value, "ece": scores["ece"].value,
                "seconds": seconds, "rows": len(y),
            }  # fmt: skip
        unit = float(np.std(data.train.y))
        low, high = predicted.interval(LEVEL)  # type: ignore[attr-defined]
        return {
            "nll": nll - float(np.log(unit)),
            "error": float(np.sqrt(np.mean((predicted.mean - y) ** 2))) / unit,
            "covered": float(np.mean((low <= y) & (y <= high))),
            "seconds": seconds,
            "rows": len(y),
        }

    def _page(self, found: dict[str, dict[str, list[Scores]]], seconds: float) -> Page:
        parts = {
            "classes": {n: by for n, by in found.items() if "ece" in next(iter(by.values()))[0]},
            "quantities": {
                n: by for n, by in found.items() if "covered" in next(iter(by.values()))[0]
            },
        }
        tables, patterns = [], []
        for kind, sets in parts.items():
            if not sets:
                continue
            names = list(next(iter(sets.values())))
            tables.append(
                (f"{kind.capitalize()}: means over {len(sets)} sets", _summary(sets, names))
            )
            tables.append((f"{kind.capitalize()}: mean NLL of each set", _by_set(sets, names)))
            patterns += _patterns(kind, sets, names)
        return Page(
            "defaults",
            "Defaults on many tables",
            f"{len(found)} data sets, {self.splits} random splits (80 % to train, at most "
            f"{self.max_rows:,} rows), {seconds / 60:.0f} minutes of this run. Nobody tuned "
            "anything for a set. NLL of quantities in units of their standard deviation, as is "
            "RMSE. Ranks: 1 is best, means over splits first. The settings of auto were chosen on "
            "splits of the same tables.",
            tuple(tables),
            tuple(patterns),
        )


def _means(sets: dict, names: list[str], score: str) -> np.ndarray:
    """(set, method) means over splits."""
    return np.array([[np.mean([s[score] for s in by[n]]) for n in names] for by in sets.values()])


def _ranks(values: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata

    return rankdata(values, axis=1).mean(axis=0)


def _summary(sets: dict, names: list[str]) -> list[list[str]]:
    nll, error = _means(sets, names, "nll"), _means(sets, names, "error")
    third = "ece" if "ece" in next(iter(sets.values()))[names[0]][0] else "covered"
    label = {"ece": "ECE", "covered": "coverage of 90 %"}[third]
    calibration = _means(sets, names, third)
    seconds = _means(sets, names, "seconds")
    what = "error" if third == "ece" else "RMSE"
    rows = [["", "mean NLL", "rank of NLL", f"mean {what}", f"rank of {what}", label, "seconds"]]
    for i, name in enumerate(names):
        numbers = (nll[:, i].mean(), _ranks(nll)[i], error[:, i].mean(), _ranks(error)[i])
        rows.append(
            [name, *(f"{n:.3f}" for n in numbers), f"{calibration[:, i].mean():.3f}",
             f"{seconds[:, i].mean():.1f}"]
        )  # fmt: skip
    return rows


def _by_set(sets: dict, names: list[str]) -> list[list[str]]:
    rows = [["set", *names]]
    for name, by in sets.items():
        rows.append([name, *(f"{np.mean([s['nll'] for s in by[n]]):.3f}" for n in names)])
    return rows


def _patterns(kind: str, sets: dict, names: list[str]) -> list[Pattern]:
    nll, error = _ranks(_means(sets, names, "nll")), _ranks(_means(sets, names, "error"))
    first = f"{', '.join(f'{n} {r:.2f}' for n, r in zip(names, nll))}"
    second = f"{', '.join(f'{n} {r:.2f}' for n, r in zip(names, error))}"
    place = int(np.sum(error < error[0])) + 1
    found = [
        Pattern(f"{kind}: auto is first in mean rank of NLL", bool(nll[0] == nll.min()), first),
        Pattern(f"{kind}: auto is first or second in mean rank of error", place <= 2, second),
    ]
    if kind == "classes":
        ece = dict(zip(names, _means(sets, names, "ece").mean(axis=0)))
        rival = ece.get("boosting-cal", np.inf)
        claim = "classes: ECE of auto at most that of calibrated boosted trees"
        found.append(Pattern(claim, bool(ece["auto"] <= rival), f"{ece['auto']:.3f}, {rival:.3f}"))
        return found
    covered = _means(sets, names, "covered")[:, 0]
    claim = "quantities: 87 to 93 % of targets in 90 % intervals on average, never below 80 %"
    holds = 0.87 <= covered.mean() <= 0.93 and covered.min() >= 0.8
    evidence = f"mean {covered.mean():.3f}, smallest {covered.min():.3f}"
    found.append(Pattern(claim, bool(holds), evidence))
    return found


def catboost_for(data: Dataset) -> dict[str, Baseline]:
    """CatBoost, where it is installed: stopped early on a fifth of the rows."""
    try:
        import catboost
    except ImportError:
        return {}

    def train(model: Any, x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        from sklearn.model_selection import train_test_split

        labels = y if data.task == "classification" and np.bincount(y).min() > 1 else None
        rest_x, held_x, rest_y, held_y = train_test_split(
            x, y, test_size=0.2, random_state=seed, stratify=labels
        )
        return model.fit(rest_x, rest_y, eval_set=(held_x, held_y))

    common = {"iterations": 1000, "early_stopping_rounds": 50, "verbose": False, "thread_count": 2,
              "allow_writing_files": False}  # fmt: skip

    def classes(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        model = catboost.CatBoostClassifier(**common, random_seed=seed)
        return _Codes(train(model, x, y, seed))

    def quantities(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        model = catboost.CatBoostRegressor(
            **common, loss_function="RMSEWithUncertainty", random_seed=seed
        )
        return _MeanAndScale(train(model, x, y, seed))

    fit_one = quantities if data.task == "regression" else classes
    return {"catboost": Baseline(fit_one, "CatBoost, stopped early on a fifth of the rows")}


@dataclass(frozen=True)
class _Codes:
    """CatBoost's classes as numbers."""

    model: Any

    @property
    def classes_(self) -> np.ndarray:
        return np.asarray(self.model.classes_).astype(int)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return self.model.predict_proba(x)


@dataclass(frozen=True)
class _MeanAndScale:
    """CatBoost's mean and variance."""

    model: Any

    def predict(self, x: np.ndarray, return_std: bool = True) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = self.model.predict(x).T
        return mean, np.sqrt(np.maximum(variance, 1e-12))
