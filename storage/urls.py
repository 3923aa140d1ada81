"""URLs of servers, as they may be shown."""

import re


def without_password(text: str) -> str:
    """A URL, or a message with some, without the user and the password that one may carry, which end at its last @."""
    return re.sub(r"(?<=://)[^/\s]\S*@", "", text)
