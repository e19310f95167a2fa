"""Dates and times that count ticks, as Python has them."""

from __future__ import annotations

import datetime

_EPOCH = datetime.datetime(1970, 1, 1)


def _delta(ticks: int, per_second: int) -> datetime.timedelta:
    """So many ticks; what is less than a microsecond is left out."""
    return datetime.timedelta(microseconds=ticks * 1_000_000 // per_second)


def date_of(ticks: int, per_day: int) -> datetime.date:
    return (_EPOCH + datetime.timedelta(days=ticks // per_day)).date()


def time_of(ticks: int, per_second: int) -> datetime.time:
    return (_EPOCH + _delta(ticks, per_second)).time()


def duration_of(ticks: int, per_second: int) -> datetime.timedelta:
    return _delta(ticks, per_second)


def moment_of(ticks: int, per_second: int, zone: str | None) -> datetime.datetime:
    """A moment; with a zone, one that knows it."""
    moment = _EPOCH + _delta(ticks, per_second)
    if zone is None:
        return moment
    return moment.replace(tzinfo=datetime.timezone.utc).astimezone(_zone(zone))


def _zone(name: str) -> datetime.tzinfo:
    if name in ("UTC", "Z"):
        return datetime.timezone.utc
    if name[:1] in ("+", "-"):
        hours, _, minutes = name[1:].partition(":")
        offset = datetime.timedelta(hours=int(hours[:2]), minutes=int(minutes or hours[2:] or 0))
        return datetime.timezone(-offset if name[0] == "-" else offset)
    import zoneinfo

    return zoneinfo.ZoneInfo(name)
