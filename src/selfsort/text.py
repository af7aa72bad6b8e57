"""Text from outside made safe to show; counts and times made easy to read."""


def printable(text: str, *, longest: int | None = None) -> str:
    r"""Text on one line that cannot steer a terminal: what is not printable is escaped, what is
    longer than `longest` is cut in the middle.

    >>> printable("\x1b[31mred, line\nbreak, caf\udce9")
    '\\x1b[31mred, line\\nbreak, caf\\xe9'
    >>> printable("a_long_name.png", longest=9)
    'a_l…e.png'
    """
    visible = "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)
    if longest is None or len(visible) <= longest:
        return visible
    head = longest // 3
    return f"{visible[:head]}…{visible[head + 1 - longest :]}"


def _escaped(letter: str) -> str:
    if 0xDC80 <= ord(letter) <= 0xDCFF:  # a byte of a file name that is not UTF-8
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")


def things(count: int, kind: str) -> str:
    """
    >>> things(1, "images"), things(1, "series"), things(2000, "sounds")
    ('1 image', '1 series', '2,000 sounds')
    """
    is_plural = count != 1 or kind == "series"
    return f"{count:,} {kind if is_plural else kind.removesuffix('s')}"


def duration(seconds: float) -> str:
    """
    >>> duration(7.25), duration(75), duration(7260)
    ('7.2 s', '1 min 15 s', '2 h 01 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"
