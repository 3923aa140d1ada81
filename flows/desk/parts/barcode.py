"""Code 128 (ISO/IEC 15417), code set B, as a picture: the key of a work order that a scanner types."""

from markupsafe import Markup

# Widths of bars and spaces in turn, by value; 104 begins code set B, 106 ends the code.
_TABLE = """
212222 222122 222221 121223 121322 131222 122213 122312 132212 221213 221312 231212 112232 122132 122231
113222 123122 123221 223211 221132 221231 213212 223112 312131 311222 321122 321221 312212 322112 322211
212123 212321 232121 111323 131123 131321 112313 132113 132311 211313 231113 231311 112133 112331 132131
113123 113321 133121 313121 211331 231131 213113 213311 213131 311123 311321 331121 312113 312311 332111
314111 221411 431111 111224 111422 121124 121421 141122 141221 112214 112412 122114 122411 142112 142211
241211 221114 413111 241112 134111 111242 121142 121241 114212 124112 124211 411212 421112 421211 212141
214121 412121 111143 111341 131141 114113 114311 411113 411311 113141 114131 311141 411131 211412 211214
211232 2331112"""
_WIDTHS = tuple(_TABLE.split())
_START, _STOP, _QUIET = 104, 106, 10


def values_of(text: str) -> list[int]:
    """Values of the code for a text of printable ASCII: start, characters, check and stop."""
    data = [ord(character) - 32 for character in text]
    check = (_START + sum(place * value for place, value in enumerate(data, 1))) % 103
    return [_START, *data, check, _STOP]


def barcode(text: str) -> Markup:
    """The code as SVG; empty for a text that the code set lacks. The text stands beside it, so readers skip it."""
    if not (text.isascii() and text.isprintable()):
        return Markup("")
    x, bars = _QUIET, list[str]()
    for value in values_of(text):
        for place, width in enumerate(map(int, _WIDTHS[value])):
            if place % 2 == 0:
                bars.append(f"M{x} 0h{width}v40h-{width}z")
            x += width
    picture = Markup(
        '<svg class="barcode" viewBox="0 0 {} 40" preserveAspectRatio="none" aria-hidden="true"><path d="{}"/></svg>'
    )
    return picture.format(x + _QUIET, "".join(bars))
