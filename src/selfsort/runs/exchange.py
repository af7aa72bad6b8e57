"""Exports that other programs read: XMP sidecars for photo programs, COCO, Label Studio."""

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from selfsort.data.gallery import ArrayGallery, FolderGallery
from selfsort.errors import EditError
from selfsort.files import inside, save_bytes, save_text
from selfsort.runs.copies import whole_folder
from selfsort.runs.forms import Edited

SIDECAR = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:lr="http://ns.adobe.com/lightroom/1.0/" xmlns:digiKam="http://www.digikam.org/ns/1.0/">
   <dc:subject><rdf:Bag><rdf:li>{keyword}</rdf:li></rdf:Bag></dc:subject>
   <lr:hierarchicalSubject><rdf:Bag><rdf:li>selfsort|{leaf}</rdf:li></rdf:Bag></lr:hierarchicalSubject>
   <digiKam:TagsList><rdf:Seq><rdf:li>selfsort/{leaf}</rdf:li></rdf:Seq></digiKam:TagsList>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""
"""A keyword three times: as all programs read it, and in the trees of Lightroom and digiKam."""

LOCAL_FILES = "/data/local-files/?d="
"""Label Studio's address of files below LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""


def write_xmp(target: Path, run: Edited) -> None:
    """`NAME.xmp` for each image that is no outlier, in the same folders as the images."""
    if not isinstance(run.gallery, FolderGallery):
        raise EditError("these images are no files that a photo program would show; export labels.")
    with whole_folder(target) as unfinished:
        for done, row in enumerate(run.kept, start=1):
            keyword = run.title(row)
            leaf = keyword.replace("|", "-").replace("/", "-")  # these part the levels of a tree
            text = SIDECAR.format(keyword=escape(keyword), leaf=escape(leaf))
            save_text(inside(unfinished, f"{run.assignments.names[row]}.xmp"), text)
            run.on_stage("writing sidecars", done, len(run.kept))


def write_coco(target: Path, run: Edited) -> None:
    """`annotations.json`: each image with one box around all of it, whose category is its
    cluster.
    """
    numbers = {cluster: number for number, cluster in enumerate(run.used, start=1)}
    with whole_folder(target) as unfinished:
        files = list(_files(unfinished, run))
        sizes = run.gallery.sizes(run.kept, run.on_stage)
        boxes = list(zip(run.kept, files, sizes, strict=True))
        content = {
            "info": {"description": f"clusters found by selfsort {version('selfsort')}"},
            "images": [
                {"id": row + 1, "file_name": file, "width": width, "height": height}
                for row, file, (width, height) in boxes
            ],
            "categories": [
                {"id": numbers[cluster], "name": title, "supercategory": "cluster"}
                for cluster, title in zip(run.used, run.titles, strict=True)
            ],
            "annotations": [
                {
                    "id": row + 1,
                    "image_id": row + 1,
                    "category_id": numbers[int(run.state.labels[row])],
                    "bbox": [0, 0, width, height],
                    "area": width * height,
                    "iscrowd": 0,
                }
                for row, _, (width, height) in boxes
            ],
        }
        _save_json(unfinished / "annotations.json", content)


def write_label_studio(target: Path, run: Edited) -> None:
    """`tasks.json`: what a person has decided as annotations, the rest as predictions; and
    `labels.xml`, the labelling interface.
    """
    tasks = []
    with whole_folder(target) as unfinished:
        for row, file in zip(run.kept, _files(unfinished, run), strict=True):
            choice = {
                "from_name": "cluster",
                "to_name": "image",
                "type": "choices",
                "value": {"choices": [run.title(row)]},
            }
            confidence = round(float(run.assignments.confidence[row]), 4)
            answer: dict[str, object] = {"result": [choice]}
            if run.state.reviewed[row]:
                answers: dict[str, object] = {"annotations": [answer]}
            else:
                model = f"selfsort {version('selfsort')}"
                answers = {"predictions": [answer | {"score": confidence, "model_version": model}]}
            address = LOCAL_FILES + quote(file, errors="surrogateescape")
            tasks.append({"id": row + 1, "data": {"image": address}, **answers})
        choices = "".join(f"    <Choice value={quoteattr(title)}/>\n" for title in run.titles)
        interface = (
            '<View>\n  <Image name="image" value="$image"/>\n'
            f'  <Choices name="cluster" toName="image">\n{choices}  </Choices>\n</View>\n'
        )
        save_text(unfinished / "labels.xml", interface)
        _save_json(unfinished / "tasks.json", tasks)


def _files(unfinished: Path, run: Edited) -> Iterator[str]:
    """The file of each image that is no outlier, relative to the sorted folder; those that are no
    files are written beside the export.
    """
    for row in run.kept:
        name = run.assignments.names[row]
        if isinstance(run.gallery, ArrayGallery):
            name = f"images/{row}.png"
            save_bytes(unfinished / name, run.gallery.png(row))
        yield name


def _save_json(path: Path, content: object) -> None:
    """In ASCII, so that names that are not UTF-8 pass too."""
    save_text(path, json.dumps(content, indent=1) + "\n")
