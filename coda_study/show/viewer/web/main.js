// The frame of the page: header, views by their address, keys.

function aboutView() {
  const node = el(
    "article",
    {},
    el("h1", {}, "About this page"),
    el(
      "p",
      {},
      "It holds episodes of agents with what was seen, planned, done and judged. It needs no server and no network, and asks for nothing.",
    ),
    part(
      "Sources",
      table(
        ["source", "what"],
        data.about.map((pair) => row(...pair)),
      ),
    ),
    part(
      "Inside",
      table(
        ["what", "number"],
        [
          row("episodes", episodes.length.toLocaleString("en")),
          row("of these step by step", episodes.filter((one) => one.steps).length.toLocaleString("en")),
          row("screenshots", (files[0] ? files.length : 0).toLocaleString("en")),
          row("GRPO groups", data.groups.length.toLocaleString("en")),
        ],
      ),
    ),
    part(
      "What is not kept",
      data.lacks.length
        ? el(
            "ul",
            {},
            data.lacks.map((text) => el("li", {}, text)),
          )
        : el("p", {}, "Nothing is missing."),
    ),
    part(
      "Keys",
      table(
        ["key", "does"],
        KEYS.map(([key, text]) => row(el("kbd", {}, key), text)),
      ),
    ),
    part(
      "Marks",
      el(
        "p",
        {},
        "A cross is a click (ringed: double click, boxed: right click), a ring a hover, an arrow a drag or a scroll. What has no place is written on the screen.",
      ),
    ),
  );
  return { title: "About", node, update: () => true };
}

const KEYS = [
  ["← →", "step of an episode, group"],
  ["↑ ↓", "episode of the list"],
  ["Enter", "open"],
  ["Esc", "back to the list"],
  ["c", "the episode beside another"],
  ["/", "search"],
  ["?", "this page"],
];
const VIEWS = {
  episodes: episodesView,
  episode: episodeView,
  compare: compareView,
  difference: differenceView,
  groups: groupsView,
  judges: judgesView,
  reward: rewardView,
  about: aboutView,
};
const MENU = {
  episodes: "Episodes",
  difference: "Differences",
  judges: "Judges",
  groups: "GRPO groups",
  reward: "Reward",
  about: "About",
};
const PARENTS = { episode: "episodes", compare: "episodes" };

const main = el("main", { id: "main", tabindex: -1 });
const menu = Object.entries(MENU).map(([view, text]) => el("a", { href: address(view), "data-view": view }, text));
let view = null;

function parsed() {
  const [, name = "", query = ""] = /^#\/(\w*)\??(.*)$/.exec(location.hash) ?? [];
  return {
    name: Object.hasOwn(VIEWS, name) ? name : "episodes",
    params: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** Go to a view; by default in the place of the present address, so that "back" does not lead through every step. */
function go(name, params, replace = true) {
  history[replace ? "replaceState" : "pushState"](null, "", address(name, params));
  route();
}

function route() {
  const { name, params } = parsed();
  if (view?.name === name && view.update(params)) return;
  const other = view?.name !== name;
  view = { name, ...VIEWS[name](params) };
  main.replaceChildren(view.node);
  view.update(params);
  document.title = `${view.title} · ${data.title}`;
  for (const item of menu) item.toggleAttribute("aria-current", false);
  menu.find((item) => item.dataset.view === (PARENTS[name] ?? name))?.setAttribute("aria-current", "page");
  if (other) window.scrollTo(0, 0);
}

const theme = el(
  "button",
  {
    type: "button",
    title: "dark or light",
    "aria-label": "dark or light",
    onclick: () => {
      const dark =
        document.documentElement.dataset.theme ??
        (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
      document.documentElement.dataset.theme = dark === "dark" ? "light" : "dark";
    },
  },
  "◐",
);

document.body.append(
  el(
    "a",
    {
      class: "skip",
      href: "#main",
      onclick: (event) => {
        event.preventDefault();
        main.focus();
      },
    },
    "Skip to the content",
  ),
  el("header", { class: "top" }, el("strong", {}, data.title), el("nav", { "aria-label": "views" }, menu), theme),
  data.lacks.length
    ? el(
        "p",
        { class: "lacks", role: "note" },
        data.lacks.map((text) => el("span", {}, text)),
      )
    : "",
  main,
);

window.addEventListener("hashchange", route);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "?" ? (go("about", {}, false), true) : view.keys?.(event)) event.preventDefault();
});
route();
document.documentElement.dataset.ready = "";
