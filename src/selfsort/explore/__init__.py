"""A local web page on which a user looks at a run and corrects it.

`session.Session` is the work on one run, `app.build_app` makes a web application of it, `guard`
lets in only the person with the printed address, and `split.split_cluster` is the one edit that
needs the model.
"""
