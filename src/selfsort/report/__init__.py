"""The report of a run: one HTML page with pictures, charts and a map; without torch.

`page.render_report` draws a run, and `map.project` places its images on the map. `cards`, `charts`
and `map_drawing` prepare the parts of the page, and `typical` chooses the images that stand for a
cluster. `static` reads the style and the script, which
explore shares.
"""
