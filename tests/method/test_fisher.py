"""Fisher vectors against derivatives by autograd, and what their measurements promise."""

import math

import pytest
import torch

from selfsort.method.fisher import N_DIRECTIONS, FisherVectors, strokes, tones


def learned(images: torch.Tensor, seed: int = 0) -> tuple[FisherVectors, FisherVectors]:
    """Both kinds, taught by these images."""
    found = (strokes(), tones(images.shape[1]))
    for one in found:
        one.learn(images, torch.Generator().manual_seed(seed))
    return found


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    noise = torch.rand(24, 3, 20, 20, generator=torch.Generator().manual_seed(1))
    return torch.nn.functional.avg_pool2d(noise, 3, 1, padding=1)


def test_a_fisher_vector_is_the_scaled_derivative_of_the_log_likelihood(
    images: torch.Tensor,
) -> None:
    for fisher in learned(images):
        squares = torch.cat([fisher._reduce(one) for one in fisher._look(images[:2])], dim=1)
        for image, found in zip(squares, fisher._deviations(squares), strict=True):
            means = fisher.means.double().requires_grad_()
            spreads = fisher.spreads.double().requires_grad_()
            kinds = torch.distributions.Independent(torch.distributions.Normal(means, spreads), 1)
            shares = torch.distributions.Categorical(fisher.shares.double())
            mixture = torch.distributions.MixtureSameFamily(shares, kinds)
            mixture.log_prob(image.double()).mean().backward()  # type: ignore[no-untyped-call]
            assert means.grad is not None
            assert spreads.grad is not None
            root = fisher.shares.double().sqrt()[:, None]
            by_mean = means.grad * spreads.detach() / root
            by_spread = spreads.grad * spreads.detach() / root / math.sqrt(2)
            expected = torch.cat([by_mean, by_spread], dim=1).flatten()
            torch.testing.assert_close(found.double(), expected, atol=2e-4, rtol=2e-3)


@pytest.mark.parametrize("direction", range(N_DIRECTIONS))
def test_strokes_see_the_direction_of_an_edge(direction: int) -> None:
    angle = direction * 2 * math.pi / N_DIRECTIONS
    down, right = torch.meshgrid(torch.arange(48), torch.arange(48), indexing="ij")
    along = (right - 24) * math.cos(angle) + (down - 24) * math.sin(angle)
    (small, _) = strokes()._look((along / 4).sigmoid()[None, None])
    middle = small.values[0, len(small.places) // 2].view(16, N_DIRECTIONS).sum(dim=0)
    assert int(middle.argmax()) == direction


def test_strokes_do_not_depend_on_brightness_and_contrast(images: torch.Tensor) -> None:
    fisher, _ = learned(images)
    plain = fisher(images)["strokes"]
    torch.testing.assert_close(fisher(images * 0.5 + 0.2)["strokes"], plain, atol=2e-3, rtol=0)


def test_tones_are_the_mean_and_the_spread_of_each_cell() -> None:
    image = torch.rand(1, 1, 64, 64, generator=torch.Generator().manual_seed(2))
    (small, _) = tones(1)._look(image)
    cells = small.values[0, 0].view(4, 4, 2)
    for down in range(4):
        for right in range(4):
            cell = image[0, 0, 3 * down : 3 * down + 3, 3 * right : 3 * right + 3]
            assert cells[down, right, 0].item() == pytest.approx(cell.mean().item(), abs=1e-5)
            spread = cell.std(correction=0).item()
            assert cells[down, right, 1].item() == pytest.approx(spread, abs=1e-4)


def test_the_same_seed_learns_the_same_and_an_image_is_described_by_itself(
    images: torch.Tensor,
) -> None:
    for one, again in zip(learned(images), learned(images), strict=True):
        whole = one(images)[one.name]
        assert torch.equal(whole, again(images)[one.name])
        torch.testing.assert_close(whole[3:4], one(images[3:4])[one.name], atol=1e-4, rtol=0)
        torch.testing.assert_close(whole.norm(dim=1), torch.ones(len(images)))


def test_images_that_are_all_alike_or_hardly_there_are_no_reason_to_fail() -> None:
    for images in (torch.full((5, 1, 8, 8), 0.4), torch.rand(1, 3, 9, 9)):
        for fisher in learned(images):
            assert fisher(images)[fisher.name].isfinite().all()
