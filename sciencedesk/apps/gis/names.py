"""Names that settings may put on the GIS's screens: of peaks, layers, zones, palettes and marks.

The landscape has a place for each (`landscape.py`); which of them a map shows is in its settings `names`,
`catalog`, `zones`, `palettes` and `marks`.
"""

# from west to east; a map shows these unless a setting names others
FIRST_PEAKS = ("Ash", "Bay", "Elm", "Fir", "Ivy", "Oak")
MORE_PEAKS = (
    "Yew", "Larch", "Birch", "Hazel", "Rowan", "Maple", "Cedar", "Alder", "Aspen", "Beech", "Poplar",
    "Walnut", "Willow", "Holly", "Laurel", "Myrtle", "Linden", "Cherry", "Plum", "Quince", "Spruce", "Acacia",
    "Ebony", "Teak", "Fern", "Moss", "Clover", "Sage", "Thyme", "Mint", "Raven", "Heron", "Falcon", "Eagle",
    "Osprey", "Merlin", "Swift", "Finch", "Wren", "Robin", "Lark", "Plover", "Curlew", "Badger", "Otter",
    "Marten", "Lynx", "Wolf", "Bear", "Elk", "Stag", "Hare", "Fox", "Owl", "Crow", "Jay", "Swan", "Crane",
    "Stork", "Bison",
)  # fmt: skip
FIRST_LAYERS = ("Elevation", "Slope", "Hillshade", "Contours", "Peaks")
MADE_LAYERS = (  # no landscape has all these measured: their values are made from its elevation
    "Rainfall", "Snow", "Heat", "Frost", "Wind", "Soil", "Erosion", "Runoff", "Wetness", "Woodland",
    "Pasture", "Crops", "Scrub", "Houses", "Traffic", "Noise", "Income", "Farms", "Clay", "Sand", "Silt",
    "Gravel", "Humus", "Acidity", "Carbon", "Lead", "Zinc", "Radon", "Gravity", "Geology", "Deer", "Birds",
    "Insects", "Fire", "Flood", "Hail", "Fog", "Storms", "Drought", "Aspect", "Relief",
)  # fmt: skip
FIRST_ZONES = ("whole", "north", "south", "east", "west")
MORE_ZONES = (
    "valley", "ridge", "basin", "plateau", "moor", "heath", "marsh", "gorge", "canyon", "park", "county",
    "border", "parish", "district", "estate", "reserve", "quarry", "airport", "campus", "lake", "dam",
    "canal", "railway", "bridge", "village", "town", "city", "suburb", "market", "mill", "abbey", "castle",
    "camp", "fort", "tower", "cave", "spring", "ford", "glen", "dale",
)  # fmt: skip
PALETTES = (  # a map's menu has the first three unless a setting names others
    "gray", "terrain", "viridis", "plasma", "inferno", "magma", "cividis", "copper", "bone", "pink", "spring",
    "summer", "autumn", "winter", "cool", "hot", "jet", "rainbow", "ocean", "turbo", "twilight", "hsv",
    "cubehelix", "afmhot", "binary", "coolwarm", "seismic", "brg", "gnuplot",
)  # fmt: skip
FIRST_MARKS = {"NW": (0.3, 0.3), "NE": (0.7, 0.3), "SW": (0.3, 0.7), "SE": (0.7, 0.7)}  # name: place
MORE_MARKS = {  # a grid that keeps clear of the first marks and of the scale bar
    f"{letter}{row}": (x, y)
    for letter, x in zip("ABCDEFG", (0.08, 0.21, 0.34, 0.47, 0.6, 0.73, 0.86), strict=True)
    for row, y in enumerate((0.16, 0.22, 0.38, 0.46, 0.54, 0.62, 0.78, 0.86), 1)
    if row > 1 and (row > 2 or letter > "C")
}  # fmt: skip
