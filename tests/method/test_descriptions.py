"""Descriptions of images against values found by hand, and what projections promise."""

import math

import numpy as np
import pytest
import torch

from selfsort.method.descriptors import Colours, Gradients, Grain, Relief, Textures
from selfsort.method.patches import Patches
from selfsort.method.sources import Projection, Shape


def striped(angle: float, side: int = 32) -> torch.Tensor:
    """Stripes whose brightness changes along a direction."""
    down, right = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    along = right * math.cos(angle) + down * math.sin(angle)
    return ((along * 0.8).sin() / 2 + 0.5)[None, None]


@pytest.mark.parametrize("direction", range(9))
def test_gradients_answer_in_the_bin_of_their_direction(direction: int) -> None:
    angle = (direction + 0.5) * math.pi / 9
    bins = Gradients()(striped(angle))["gradients"].view(-1, 9).sum(dim=0)
    assert int(bins.argmax()) == direction


def test_gradients_do_not_depend_on_brightness_and_contrast() -> None:
    image = striped(0.3)
    plain = Gradients()(image)["gradients"]
    darker = Gradients()(image * 0.5 + 0.1)["gradients"]
    torch.testing.assert_close(plain, darker, atol=1e-4, rtol=1e-3)


def test_each_block_of_gradients_has_length_one_and_a_flat_image_has_none() -> None:
    blocks = Gradients()(striped(1.0))["gradients"].view(49, 36)
    torch.testing.assert_close(blocks.norm(dim=1), torch.ones(49), atol=1e-4, rtol=0)
    assert Gradients()(torch.full((1, 1, 32, 32), 0.4))["gradients"].abs().max() < 1e-6


def test_colours_are_shares_of_a_histogram() -> None:
    image = torch.zeros(1, 3, 32, 32)
    image[:, 0, :16] = 1.0  # half red, half black
    shares = Colours()(image)["colours"].square()[0]
    assert shares.sum().item() == pytest.approx(1)
    assert shares[0].item() == pytest.approx(0.5)
    assert shares[3 * 16].item() == pytest.approx(0.5)


def slow_pattern(image: np.ndarray, row: int, column: int, n_points: int, radius: int) -> int:
    """One local binary pattern, point by point."""
    bits = []
    for point in range(n_points):
        angle = 2 * math.pi * point / n_points
        down = row - radius * math.sin(angle)
        right = column + radius * math.cos(angle)
        top, left = math.floor(down + 1e-9), math.floor(right + 1e-9)
        a, b = down - top, right - left
        value = 0.0
        for r, weight_r in ((top, 1 - a), (top + 1, a)):
            for c, weight_c in ((left, 1 - b), (left + 1, b)):
                if weight_r * weight_c > 1e-9:
                    value += weight_r * weight_c * image[r, c]
        bits.append(value >= image[row, column] - 1e-4)
    changes = sum(bits[i] != bits[i - 1] for i in range(n_points))
    return sum(bits) if changes <= 2 else n_points + 1


def test_textures_count_the_patterns_of_a_slow_reference() -> None:
    image = torch.rand(1, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    shares = Textures()(image)["textures"].square()[0]
    pixels = np.pad(image[0, 0].double().numpy(), 4, mode="edge")
    start = 0
    for n_points, radius in Textures.circles:
        counts = np.zeros(n_points + 2)
        for row in range(4, 36):
            for column in range(4, 36):
                counts[slow_pattern(pixels, row, column, n_points, radius)] += 1
        found = shares[start : start + n_points + 2].numpy()
        np.testing.assert_allclose(found, counts / counts.sum(), atol=3e-3)
        start += n_points + 2


def test_textures_of_a_turned_image_are_the_same() -> None:
    image = torch.rand(2, 1, 32, 32, generator=torch.Generator().manual_seed(1))
    turned = Textures()(image.rot90(1, (2, 3)))["textures"]
    torch.testing.assert_close(Textures()(image)["textures"], turned, atol=0.02, rtol=0)


def test_relief_does_not_see_light_that_changes_slowly() -> None:
    image = 0.3 + 0.5 * torch.rand(1, 1, 32, 32, generator=torch.Generator().manual_seed(4))
    lamp = torch.linspace(0.2, 1.0, 32)[None, None, :, None]
    plain, lit, other = (Relief()(one)["relief"] for one in (image, image * lamp, image.flip(3)))
    likeness = torch.nn.functional.cosine_similarity
    assert likeness(plain, lit).item() > 0.95 > 0.5 > likeness(plain, other).item()
    assert Relief()(torch.full((1, 1, 32, 32), 0.4))["relief"].abs().max() < 1e-3


def test_grain_counts_the_patterns_of_each_cell_as_a_slow_reference_does() -> None:
    image = torch.rand(1, 1, 32, 32, generator=torch.Generator().manual_seed(5))
    pixels = np.pad(image[0, 0].numpy(), 1, mode="edge")
    shares = Grain()(image)["grain"].square().view(59, 8, 8).numpy()
    np.testing.assert_allclose(shares.sum(axis=0), 1, rtol=1e-5)
    seen: dict[tuple[bool, ...], int] = {}
    for row in range(4):
        for column in range(4):  # the first cell
            middle = pixels[row + 1, column + 1] - 1e-4
            bits = tuple(
                bool(pixels[row + down, column + right] >= middle) for down, right in Grain.around
            )
            seen[bits] = seen.get(bits, 0) + 1
    is_arc = {bits: sum(bits[i] != bits[i - 1] for i in range(8)) <= 2 for bits in seen}
    arcs = sorted(count for bits, count in seen.items() if is_arc[bits])
    np.testing.assert_allclose(
        sorted(n for n in shares[:58, 0, 0] * 16 if n > 0.5), arcs, rtol=1e-4
    )
    others = sum(count for bits, count in seen.items() if not is_arc[bits])
    assert shares[58, 0, 0] * 16 == pytest.approx(others, abs=1e-3)


def test_patches_tell_textures_apart_wherever_they_stand_and_repeat_by_seed() -> None:
    draw = torch.Generator().manual_seed(0)
    fine = torch.rand(20, 1, 32, 32, generator=draw)
    smooth = torch.nn.functional.avg_pool2d(torch.rand(20, 1, 36, 36, generator=draw), 5, 1)
    images = torch.cat([fine, smooth])
    learned = []
    for _ in range(2):
        patches = Patches(1, is_large=False)
        patches.learn(images, torch.Generator().manual_seed(3))
        learned.append(patches(images)["patches"])
    assert torch.equal(*learned)
    vectors = torch.nn.functional.normalize(learned[0] - learned[0].mean(dim=0), dim=1)
    assert (vectors[:20] @ vectors[:20].T).mean() > 0.3 > (vectors[:20] @ vectors[20:].T).mean()
    assert patches(images)["places"].shape == (40, 4 * 512)


@pytest.mark.parametrize(("n_samples", "n_values"), [(50, 8), (20, 60)])
def test_a_projection_keeps_the_leading_directions_and_evens_them_out(
    n_samples: int, n_values: int
) -> None:
    draw = torch.Generator().manual_seed(0)
    strengths = torch.linspace(5, 0.1, n_values)
    description = torch.randn(n_samples, n_values, generator=draw) * strengths + 3
    whole = Projection.fit(description, Shape(4, 0.0))
    centred = description - description.mean(dim=0)
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)
    expected = torch.nn.functional.normalize(centred @ axes[:4].T, dim=1)
    torch.testing.assert_close(whole(description).abs(), expected.abs(), atol=1e-3, rtol=1e-3)
    even = Projection.fit(description, Shape(4, 1.0))
    spread = (centred @ even.axes).var(dim=0)
    torch.testing.assert_close(spread, spread.mean().expand(4), atol=1e-4, rtol=1e-3)


def test_a_description_that_is_the_same_for_all_images_is_no_reason_to_fail() -> None:
    same = torch.ones(10, 5)
    assert Projection.fit(same, Shape(3, 0.5))(same).isfinite().all()
