"""How large the files and numbers of a run may be; what is larger is refused before it is read."""

MAX_SEED = 2**31 - 1
MAX_THREADS = 1024

MAX_JSON_BYTES = 16 * 2**20
"""Of `run.json` or `job.json`; parsed, one takes at most forty times as much memory."""

MAX_TABLE_BYTES = 2**30
"""Of a table: about ten million images."""

MAX_LINE = 2**20
"""Characters of a line in a table, which may be a file without line breaks."""

MAX_JOURNAL_BYTES = 2**28
