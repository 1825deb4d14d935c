"""Positions, rise, set and distances of the naked-eye bodies; PyEphem computes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import ephem
import ephem.cities
import ephem.stars

PLANETS = ("Mercury", "Venus", "Mars", "Jupiter", "Saturn")
# that have a name at first; the others of the catalogue get it when they are looked for
STARS = ("Polaris", "Sirius", "Vega")
SOLAR = ("Sun", "Moon", *PLANETS)
CATALOGUE = frozenset(name for name in ephem.stars.stars if name.isalpha())
CITIES = ("Paris", "Tokyo", "Sydney", "Cairo")
_SITE = re.compile(r"([0-9]{1,2})([NS]) ([0-9]{1,3})([EW])")
When = tuple[int, int, int, int]  # year, month, day, hour (UT)


class Place(NamedTuple):
    """Where a body is and how it looks; angles in degrees, distances in au (None for a star)."""

    altitude: float
    azimuth: float
    magnitude: float
    constellation: str
    distance: float | None


def when_of(v: Mapping[str, Any]) -> When:
    """The date and hour of the application's state `v`."""
    return v["year"], v["month"], v["day"], v["hour"]


def bodies_of(v: Mapping[str, Any]) -> dict[str, Place]:
    """All named bodies at the date and place of the application's state `v`."""
    return sky(when_of(v), v["place"], tuple(v["stars"]))


def _body(name: str) -> ephem.Body:
    return ephem.star(name) if name in ephem.stars.stars else getattr(ephem, name)()


def _computed(names: Iterable[str], at: ephem.Observer | ephem.Date) -> Iterator[tuple[str, ephem.Body]]:
    for name in names:
        body = _body(name)
        body.compute(at)
        yield name, body


def find_place(text: str) -> str | None:
    """The city of that name, or latitude and longitude as in '48N 11E'; None if there is no such place."""
    if match := _SITE.fullmatch(text.upper()):
        return text.upper() if int(match[1]) <= 90 and int(match[3]) <= 180 else None
    for written in (text, text.title()):
        try:
            return ephem.city(written).name
        except KeyError:
            pass
    return None


def _site(place: str) -> ephem.Observer:
    match = _SITE.fullmatch(place)
    if match is None:
        return ephem.city(place)
    site, (latitude, north_south, longitude, east_west) = ephem.Observer(), match.groups()
    site.lat = f"-{latitude}" if north_south == "S" else latitude
    site.lon = f"-{longitude}" if east_west == "W" else longitude
    return site


def observer(when: When, city: str) -> ephem.Observer:
    site = _site(city)
    site.date = datetime(*when)
    return site


@lru_cache(maxsize=512)
def sky(when: When, city: str, stars: tuple[str, ...] = ()) -> dict[str, Place]:
    """Sun, Moon, planets and these stars at a date and place."""
    places = {}
    for name, body in _computed((*SOLAR, *stars), observer(when, city)):
        angles = math.degrees(body.alt), math.degrees(body.az)
        distance = None if name in stars else body.earth_distance
        places[name] = Place(*angles, body.mag, ephem.constellation(body)[1], distance)
    return places


@lru_cache(maxsize=64)
def stars(when: When, city: str) -> dict[str, tuple[float, float, float]]:
    """Altitude and azimuth in degrees and magnitude of every star that ephem knows."""
    known = _computed(ephem.stars.stars, observer(when, city))
    return {name: (math.degrees(star.alt), math.degrees(star.az), star.mag) for name, star in known}


@lru_cache(maxsize=512)
def passage(name: str, when: When, city: str) -> tuple[str, str, tuple[float, ...]]:
    """Next rise and set as 'hh:mm' UT or 'never', and the altitude in degrees hourly for a day."""
    times = []
    for event in (ephem.Observer.next_rising, ephem.Observer.next_setting):
        try:
            times.append(event(observer(when, city), _body(name)).datetime().strftime("%H:%M"))
        except ephem.CircumpolarError:
            times.append("never")
    site, body, altitudes = observer(when, city), _body(name), []
    start = site.date
    for hour in range(25):
        site.date = start + hour / 24
        body.compute(site)
        altitudes.append(math.degrees(body.alt))
    return times[0], times[1], tuple(altitudes)


@lru_cache(maxsize=512)
def separation(first: str, second: str, when: When, city: str) -> int:
    """Angle between two bodies in the sky, whole degrees."""
    places = sky(when, city, tuple(name for name in (first, second) if name in CATALOGUE))
    bodies = [places[first], places[second]]
    radians = [(math.radians(body.azimuth), math.radians(body.altitude)) for body in bodies]
    return round(math.degrees(ephem.separation(*radians)))


@lru_cache(maxsize=256)
def orbits(when: When) -> dict[str, tuple[float, float]]:
    """Heliocentric longitude in radians and distance in au of the Earth and the planets."""
    sun, *planets = _computed(("Sun", *PLANETS), ephem.Date(datetime(*when)))
    earth = {"Earth": (float(sun[1].hlon), sun[1].earth_distance)}  # hlon of PyEphem's Sun is the Earth's
    return earth | {name: (float(body.hlon), body.sun_distance) for name, body in planets}
