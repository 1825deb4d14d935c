"""The location that GRASS GIS starts with: 6 by 4 km at 50 m, made by its modules."""

from __future__ import annotations

REGION = {"n": 5204000, "s": 5200000, "e": 506000, "w": 500000, "res": 50}
MAPS = (
    "elevation=float(620+0.035*(x()-500000)+90*sin((x()-500000)*0.09)+120*cos((y()-5200000)*0.08))",
    "landuse=if(elevation<590,4,if(elevation<660,3,if(elevation<780,2,if(elevation<880,1,5))))",
    "rain=int(900+(elevation-700)*0.6)",
)
LANDUSE = "1|forest\n2|meadow\n3|farmland\n4|water\n5|rock\n"
LANDUSE_COLORS = "1 34:139:34\n2 154:205:50\n3 240:220:130\n4 70:130:180\n5 160:160:160\n"
WELLS = (
    "500600|5203400|1|Alder|35|drinking\n501500|5200700|2|Birch|62|farming\n"
    "502300|5202600|3|Cedar|18|drinking\n503200|5201500|4|Elm|95|farming\n"
    "504100|5203200|5|Fir|48|industry\n505300|5200900|6|Hazel|71|drinking\n"
)
ROADS = {
    1: ("Valley Road", "main", ((500100, 5201900), (502000, 5202100), (504000, 5201800), (505900, 5202300))),
    2: ("Mill Lane", "minor", ((502000, 5202100), (502300, 5203900))),
    3: ("Ridge Track", "track", ((504000, 5201800), (504400, 5200100))),
}
DEPTHS = {  # of wells by their names, in m
    "Acacia": 96, "Alder": 35, "Almond": 45, "Apple": 111, "Ash": 59, "Aspen": 118, "Bamboo": 105,
    "Beech": 124, "Birch": 62, "Box": 137, "Cedar": 18, "Cherry": 100, "Chestnut": 83, "Cypress": 14,
    "Ebony": 133, "Elder": 75, "Elm": 95, "Fig": 116, "Fir": 48, "Ginkgo": 44, "Hawthorn": 131, "Hazel": 71,
    "Holly": 17, "Hornbeam": 32, "Ivy": 26, "Juniper": 61, "Larch": 76, "Laurel": 125, "Linden": 63,
    "Maple": 85, "Mulberry": 25, "Myrtle": 89, "Oak": 135, "Olive": 12, "Pear": 110, "Pine": 40, "Plane": 67,
    "Plum": 49, "Poplar": 36, "Quince": 64, "Rowan": 122, "Spruce": 21, "Sumac": 29, "Teak": 139,
    "Walnut": 102, "Willow": 72, "Yew": 28,
}  # fmt: skip
