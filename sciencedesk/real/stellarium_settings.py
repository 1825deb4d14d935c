"""Stellarium's settings for a display, and our names for its properties and for facts of an object."""

from __future__ import annotations

FPS = 25
# A still sky, no network, no slow fading or turning, no button to leave by, dialogs at the left edge.
CONFIG = {
    "main": {"version": "0.22.2"},
    "plugins_load_at_startup": {"RemoteControl": "true"},
    "RemoteControl": {"autostart": "true", "port": "0", "use_password": "true"},  # port 0: any free one
    "video": {"fullscreen": "false", "screen_w": "640", "screen_h": "480", "minimum_fps": str(FPS),
              "maximum_fps": str(FPS)},
    "localization": {"app_locale": "en", "sky_locale": "en"},
    "navigation": {"startup_time_mode": "preset", "preset_sky_time": "2460325.375",
                   "auto_move_duration": "0.1"},
    "init_location": {"location": "Paris, Western Europe"}, "stars": {"flag_star_twinkle": "false"},
    "astro": {"meteor_zhr": "0"}, "landscape": {"atmosphere_fade_duration": "0.1"},
    "viewing": {"constellation_art_fade_duration": "0.1"},
    "search": {"flag_search_online": "false", "recentSearchSize": "0"},
    "gui": {
        "auto_hide_horizontal_toolbar": "false", "auto_hide_vertical_toolbar": "false",
        "flag_show_fps": "false", "flag_show_tz": "false", "flag_show_fullscreen_button": "false",
        "flag_show_quit_button": "false", "flag_show_goto_selected_button": "false",
        "flag_enable_kinetic_scrolling": "false", "gui_font_size": "11", "selected_object_info": "custom",
        "light_pollution_unit": "mpsas", "light_pollution_widget_mode": "manual",
    },
    "custom_selected_info": dict.fromkeys(
        ("flag_show_name", "flag_show_type", "flag_show_magnitude", "flag_show_altaz", "flag_show_distance",
         "flag_show_size", "flag_show_constellation", "flag_show_rts_time"), "true",
    ),
    "DialogPositions": {"View": "0,0", "Configuration": "0,0", "AstroCalc": "0,0", "Location": "0,0"},
}  # fmt: skip
PROPERTIES = {
    "constellation_lines": "ConstellationMgr.linesDisplayed",
    "constellation_labels": "ConstellationMgr.namesDisplayed",
    "constellation_art": "ConstellationMgr.artDisplayed",
    "constellation_boundaries": "ConstellationMgr.boundariesDisplayed",
    "asterism_lines": "AsterismMgr.linesDisplayed", "asterism_labels": "AsterismMgr.namesDisplayed",
    "equatorial_grid": "GridLinesMgr.equatorGridDisplayed",
    "azimuthal_grid": "GridLinesMgr.azimuthalGridDisplayed",
    "galactic_grid": "GridLinesMgr.galacticGridDisplayed",
    "ecliptic_grid": "GridLinesMgr.eclipticGridDisplayed", "equator": "GridLinesMgr.equatorLineDisplayed",
    "ecliptic": "GridLinesMgr.eclipticLineDisplayed", "meridian": "GridLinesMgr.meridianLineDisplayed",
    "horizon": "GridLinesMgr.horizonLineDisplayed",
    "galactic_equator": "GridLinesMgr.galacticEquatorLineDisplayed",
    "zenith_nadir": "GridLinesMgr.zenithNadirDisplayed", "atmosphere": "LandscapeMgr.atmosphereDisplayed",
    "landscape": "LandscapeMgr.landscapeDisplayed", "landscape_name": "LandscapeMgr.currentLandscapeID",
    "fog": "LandscapeMgr.fogDisplayed", "cardinal_points": "LandscapeMgr.cardinalPointsDisplayed",
    "stars": "StarMgr.flagStarsDisplayed", "star_labels": "StarMgr.flagLabelsDisplayed",
    "planets": "SolarSystem.planetsDisplayed", "planet_labels": "SolarSystem.labelsDisplayed",
    "planet_hints": "SolarSystem.flagHints", "planet_orbits": "SolarSystem.flagOrbits",
    "planet_trails": "SolarSystem.trailsDisplayed", "moon_enlarged": "SolarSystem.flagMoonScale",
    "nebula_hints": "NebulaMgr.flagHintDisplayed", "milky_way": "MilkyWay.flagMilkyWayDisplayed",
    "zodiacal_light": "ZodiacalLight.flagZodiacalLightDisplayed", "night_mode": "StelApp.nightMode",
    "projection": "StelCore.currentProjectionTypeKey", "flipped_horizontally": "StelCore.flipHorz",
    "flipped_vertically": "StelCore.flipVert", "equatorial_mount": "StelMovementMgr.equatorialMount",
    "tracking": "StelMovementMgr.tracking", "sky_culture": "StelSkyCultureMgr.currentSkyCultureID",
    "time_zone": "StelCore.currentTimeZone",
}  # our names for its properties, as in the state  # fmt: skip
# prefixes of properties that follow from others
FOLLOWING = (
    "StelToneReproducer.", "StelSkyDrawer.lightPollutionLuminance", "LandscapeMgr.currentLandscapeHtml",
    "HipsMgr.",
)  # fmt: skip
FACTS = {
    "type": "object-type", "magnitude": "vmag", "altitude": "altitude", "azimuth": "azimuth", "ra": "ra",
    "dec": "dec", "constellation": "iauConstellation", "above_horizon": "above-horizon",
}  # our names for facts of the selected object  # fmt: skip
