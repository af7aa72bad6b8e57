"""What the paper reports (Kilinc & Uysal, ICLR 2018): its figures, to stand beside ours."""

from typing import NamedTuple


class Figure(NamedTuple):
    """An accuracy in per cent, mean and standard deviation over runs (0: not given)."""

    mean: float
    std: float = 0.0

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.std:.2f}" if self.std else f"{self.mean:.2f}"


class System(NamedTuple):
    """A row of the paper's table 3: accuracy with k clusters on MNIST test, USPS full and SVHN
    test.
    """

    name: str
    n_clusters: int
    mnist: Figure | None = None
    usps: Figure | None = None
    svhn: Figure | None = None


ACCURACY = {"mnist": Figure(98.32, 0.08), "usps": Figure(96.51, 0.26), "svhn": Figure(76.80, 1.30)}
"""What the paper reports of its own approach, after 400 epochs."""

SYSTEMS = (
    System("VaDE", 10, Figure(94.06)),
    System("GMVAE", 10, Figure(82.31, 3.75)),
    System("GMVAE", 16, Figure(87.82, 5.33)),
    System("GMVAE", 30, Figure(92.77, 1.60)),
    System("CatGAN", 20, Figure(90.30)),
    System("AAE", 16, Figure(90.45, 2.05)),
    System("AAE", 30, Figure(95.90, 1.13)),
    System("IMSAT", 10, Figure(98.40, 0.40), None, Figure(57.30, 3.90)),
    System("k-means on pixels", 10, Figure(53.49)),
    System("autoencoder + k-means", 10, Figure(81.84)),
    System("DEC", 10, Figure(84.30), None, Figure(11.90, 0.40)),
    System("JULE", 10, Figure(96.10), Figure(95.00)),
    System("the paper", 10, **ACCURACY),
)

EPOCHS = 400

AS_GOOD = 1.0
"""Points by which two spaces may differ and still count as equally good, as the paper says of F and
Z.
"""

ON_LOGITS = Figure(98.16, 0.14)
"""MNIST, k-means on Z instead of F."""

TRANSFORMATIONS = {
    "{T1..T8}": Figure(98.32, 0.08),
    "{T1..T4}": Figure(97.80, 0.18),
    "{T1,T3}": Figure(96.84, 0.29),
    "{T1,T2}": Figure(72.52, 6.20),
}
"""MNIST, by the set of transformations."""
