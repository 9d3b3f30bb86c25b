"""Loss landscapes: how solutions differ, what lies around one and between several.

After Fort, Hu & Lakshminarayanan, Deep Ensembles: A Loss Landscape Perspective, 2019.
"""

from credo.landscape.alignment import align, permute, random_permutations
from credo.landscape.findings import Findings, Study
from credo.landscape.functions import (
    Plane,
    cosine_matrix,
    disagreement,
    disagreement_matrix,
    diversity_accuracy,
    independent_disagreement,
    normalized,
    prediction_map,
)
from credo.landscape.paths import (
    Slice,
    barrier,
    bezier,
    combine,
    line,
    path_losses,
    plane_slice,
    train_tunnel,
)
from credo.landscape.study import explore
from credo.landscape.subspaces import (
    diagonal_normal,
    dropout,
    low_rank_normal,
    random_directions,
)
from credo.landscape.trajectories import Trajectories

__all__ = [
    "Findings",
    "Plane",
    "Slice",
    "Study",
    "Trajectories",
    "align",
    "barrier",
    "bezier",
    "combine",
    "cosine_matrix",
    "diagonal_normal",
    "disagreement",
    "disagreement_matrix",
    "diversity_accuracy",
    "dropout",
    "explore",
    "independent_disagreement",
    "line",
    "low_rank_normal",
    "normalized",
    "path_losses",
    "permute",
    "plane_slice",
    "prediction_map",
    "random_directions",
    "random_permutations",
    "train_tunnel",
]
