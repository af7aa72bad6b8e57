"""From a source of images to a run folder with its report, in one call that prints nothing.

`fit.sort_folder` fits and writes everything, `fit.resume_folder` continues an interrupted fit,
`report.write_report` makes the page of a finished run; `selfsort` exports all three. They tell
`images.Callbacks` how far they are.
"""
