// Two systems on the same tasks: the difference behind a cell of the comparisons, task by task.

function differenceView(params) {
  const systems = [...new Set(episodes.filter((episode) => episode.set === "test").map((episode) => episode.system))];
  const { first = systems[0], second = systems.at(-1), app = "", metric = "Average" } = params;
  const change = (name) => (value) => go("difference", { first, second, app, metric, [name]: value });
  const names = systems.map((system) => [system, label(system)]);
  const apps = [...new Set(episodes.filter((episode) => episode.set === "test").map((episode) => episode.app))];
  const score = (runs) => {
    const solved = runs.map((episode) => Number(episode.success));
    return metric === "Pass" ? Math.max(...solved) : mean(solved);
  };
  const chosen = episodes.filter(
    (episode) => episode.set === "test" && typeof episode.success === "boolean" && (!app || episode.app === app),
  );
  const rows = [
    ...groupedBy(
      chosen.filter((episode) => [first, second].includes(episode.system)),
      (episode) => `${episode.app}\n${episode.task}`,
    ).values(),
  ]
    .map((runs) => ({
      runs,
      sides: [first, second].map((system) => runs.filter((episode) => episode.system === system)),
    }))
    .filter(({ sides }) => sides.every((side) => side.length))
    .map((one) => ({ ...one, gap: score(one.sides[1]) - score(one.sides[0]), app: one.runs[0].app }))
    .sort((a, b) => a.gap - b.gap);
  const gap = mean([...groupedBy(rows, (one) => one.app).values()].map((part) => mean(part.map((one) => one.gap))));
  const better = rows.filter((one) => one.gap > 0).length,
    worse = rows.filter((one) => one.gap < 0).length;
  const cells = ({ runs, sides, gap: own }) => {
    const pairs = sides[0].flatMap((left) =>
      sides[1].filter((right) => right.run === left.run).map((right) => [left, right]),
    );
    const [left, right] = pairs.find(([a, b]) => a.success !== b.success) ?? pairs[0] ?? [sides[0][0], sides[1][0]];
    const solved = (side) => `${side.filter((episode) => episode.success).length} of ${side.length}`;
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, el("a", { href: address("compare", pair(left, right)) }, runs[0].task)),
      el("td", {}, runs[0].instruction ?? ""),
      el("td", { class: "number" }, solved(sides[0])),
      el("td", { class: "number" }, solved(sides[1])),
      el(
        "td",
        { class: "number" },
        el("meter", { class: own < 0 ? "bad" : "good", min: 0, max: 1, value: Math.abs(own), "aria-hidden": "true" }),
        points(own),
      ),
    );
  };
  const node = el(
    "article",
    {},
    el("h1", {}, `${label(second)} minus ${label(first)}`),
    el(
      "form",
      { class: "row", onsubmit: (event) => event.preventDefault() },
      choice("From", first, names, change("first")),
      choice("To", second, names, change("second")),
      choice("Application", app, [["", "all"], ...apps.map((one) => [one, one])], change("app")),
      choice(
        "Metric",
        metric,
        [
          ["Average", "Average@k"],
          ["Pass", "Pass@k"],
        ],
        change("metric"),
      ),
    ),
    el(
      "p",
      { class: "big" },
      el("output", { "data-name": "difference" }, points(gap)),
      " percentage points",
      el(
        "small",
        {},
        `${count(rows.length, "task")}: ${better} better, ${worse} worse, ${rows.length - better - worse} equal`,
      ),
    ),
    el(
      "p",
      { class: "quiet" },
      "Mean over the tasks of an application, then over applications. A task opens one run of both systems side by side, with different outcomes if there is one.",
    ),
    table(["task", "instruction", label(first), label(second), "difference"], rows.map(cells), { class: "wide" }),
  );
  return {
    title: "Differences",
    node,
    update: (next) => address("difference", next) === address("difference", params),
  };
}
