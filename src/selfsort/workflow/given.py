"""What somebody knows of the images of a fit: read with them, and kept beside the run."""

from pathlib import Path

from selfsort.data.image_set import ImageSet
from selfsort.data.teaching import folder_parents, read_labels, teach
from selfsort.errors import DataError
from selfsort.runs.folder import RunFolder
from selfsort.runs.given import load_given
from selfsort.runs.job import FitJob
from selfsort.runs.state import name_problem
from selfsort.workflow.images import Callbacks


def teach_job(
    images: ImageSet, job: FitJob, folder: RunFolder, callbacks: Callbacks, *, is_new: bool
) -> ImageSet:
    """The images with what is known of them; a run that goes on knows what it knew at its start."""
    if is_new:
        labels = read_labels(Path(job.labels)) if job.labels else {}
        parents = read_labels(Path(job.parents)) if job.parents else {}
        if job.folder_parents:
            parents = folder_parents(images)
    else:
        labels, parents = load_given(folder.given)
    for name in {*labels.values(), *parents.values()}:
        if problem := name_problem(name):
            raise DataError(f"class {name[:50]!r}: {problem}")
    images = teach(images, labels=labels, parents=parents)
    if (taught := images.taught) is not None:
        if alone := taught.lonely:
            callbacks.tell(
                f"{len(alone)} of {len(taught.names)} classes have one labelled image "
                f"({', '.join(alone[:3])}); two or more would show which of its features count"
            )
        callbacks.tell(taught.describe())
    return images
