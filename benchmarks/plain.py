"""The paper's training as a practitioner would write it in an afternoon: what `engine.py` compares
selfsort with.

Plain and honest: channels first, a `DataLoader` that transforms image by image, layers, dropout and
Adam as they come, the equations written down parent by parent. It shares no code with selfsort, so
it is its reference in a test as well.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

N_PARENTS, N_DUPLICATES = 8, 20


class TransformedImages(Dataset[tuple[Tensor, int]]):
    """Each image under a random one of the eight rotations and flips, drawn when it is asked
    for.
    """

    def __init__(self, pixels: Tensor) -> None:
        self.pixels = pixels

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.pixels[index].float() / 255
        parent = int(torch.randint(N_PARENTS, ()))
        if parent >= 4:
            image = image.flip(2)
        return torch.rot90(image, parent % 4, dims=(1, 2)), parent


class PlainNetwork(nn.Module):
    """Two blocks of convolutions, a wide layer and the augmented softmax."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.3),
            nn.Flatten(),
            nn.Linear(64 * (size // 4) ** 2, 2048),
            nn.ReLU(),
        )
        self.dropout = nn.Dropout(0.5)
        self.output = nn.Linear(2048, N_PARENTS * N_DUPLICATES)

    def forward(self, images: Tensor) -> Tensor:
        """Z, (batch, 160)."""
        z: Tensor = self.output(self.dropout(self.features(images)))
        return z


def plain_loss(z: Tensor, parents: Tensor) -> Tensor:
    """Classification by the summed softmax, affinity and balance inside each parent, and ‖B‖²."""
    y = torch.softmax(z, dim=1).view(-1, N_PARENTS, N_DUPLICATES).sum(dim=2)
    loss = functional.nll_loss(torch.log(y), parents)
    b = torch.relu(z)
    alpha = beta = torch.zeros(())
    for block in b.view(-1, N_PARENTS, N_DUPLICATES).unbind(dim=1):
        n = block.T @ block
        v = torch.diag(n)
        outer = torch.outer(v, v)
        alpha = alpha + (n.sum() - v.sum()) / ((N_DUPLICATES - 1) * v.sum())
        beta = beta + (outer.sum() - torch.diag(outer).sum()) / (
            (N_DUPLICATES - 1) * torch.diag(outer).sum()
        )
    return loss + 0.1 * alpha / N_PARENTS + 1.0 * (1 - beta / N_PARENTS) + 1e-6 * (b**2).sum()


def plain_batches(pixels: Tensor, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches without end, epoch after epoch."""
    while True:
        yield from DataLoader(
            TransformedImages(pixels), batch_size=batch_size, shuffle=True, drop_last=True
        )
