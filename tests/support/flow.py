"""The ways through a program, found by one search, to hold its analyses against."""

__all__ = ["reached"]


def reached(begin, ways, past=()):
    """What paths of one step or more lead to; they end at what is in `past`."""
    found, left = set(), [begin]
    while left:
        for n in ways[left.pop()]:
            if n not in found:
                found.add(n)
                left += [n] * (n not in past)
    return found
