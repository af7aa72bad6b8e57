"""What the library asks a Python user to pass, in the words of the command line."""

FLAGS = {
    "`overwrite=True`": "--overwrite",
    "`skip_broken=True`": "--skip-broken",
    "`drop_duplicates=True`": "--drop-duplicates",
    "`folder_truth=True`": "--folder-truth",
    "`n_clusters='auto'`": "-k auto",
    "`n_clusters`": "-k",
    "`recipe='standard'`": "--recipe standard",
    "`size`": "--size",
    "`image_shape`": "--image-shape",
    "`kind='series'`": "--kind series",
    "`kind='features'`": "--kind features",
    "`data_dir`": "--data-dir",
    "`images`": "--images",
    "`resume_folder`": "--resume",
    "`write_report`": "`selfsort report`",
}
"""A test checks that each is in a message of the library, and that no message names a flag."""


def in_flags(message: str) -> str:
    """A message of the library as the command line says it.

    >>> in_flags("it is broken; remove it or use `skip_broken=True`.")
    'it is broken; remove it or use --skip-broken.'
    """
    for argument, flag in FLAGS.items():
        message = message.replace(argument, flag)
    return message
