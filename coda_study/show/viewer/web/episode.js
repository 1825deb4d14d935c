// One episode, and two side by side.

const missing = () => ({
  title: "Not here",
  node: el("p", { class: "empty" }, "This page has no such episode."),
  update: () => false,
});

function heading(episode) {
  return el(
    "header",
    { class: "about" },
    el("h1", {}, episode.instruction ?? episode.task),
    el("p", {}, [episode.task, episode.app, episode.grade && `grade ${episode.grade}`].filter(Boolean).join(" · ")),
  );
}

const who = (episode) =>
  `${label(episode.system)}, run ${episode.run}${episode.set === "greedy" ? ", at temperature 0" : ""}`;

/** All episodes at the task, a row a system; the links lead to what `target` says. */
function matrix(episode, target) {
  const rows = [...groupedBy(attempts(episode), (other) => `${other.set}\n${other.system}`).values()].map((runs) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, label(runs[0].system), runs[0].set === "greedy" ? ", at temperature 0" : ""),
      el(
        "td",
        {},
        runs.map((other) =>
          el(
            "a",
            {
              href: target(other),
              class: `cell ${other.success === true ? "good" : other.success === false ? "bad" : ""}`,
              "aria-current": other === episode ? "true" : undefined,
              title: `run ${other.run}`,
              "aria-label": `${who(other)}: ${other.success === true ? "solved" : other.success === false ? "not solved" : "not checked"}`,
            },
            other.success === true ? "✓" : other.success === false ? "✗" : "?",
          ),
        ),
      ),
    ),
  );
  return el("div", { class: "scroll" }, el("table", { class: "matrix" }, el("tbody", {}, rows)));
}

function episodeView(params) {
  const episode = find(params);
  if (!episode) return missing();
  const around = listed.found.includes(episode)
    ? listed.found
    : episodes.filter((other) => other.set === episode.set && other.system === episode.system);
  const at = around.indexOf(episode),
    before = around[at - 1],
    after = around[at + 1];
  const step = (number) => go("episode", { ...place(episode), step: number });
  const view = player(episode, step);
  const other =
    attempts(episode).find((one) => one.system !== episode.system && one.success !== episode.success) ??
    attempts(episode).find((one) => one !== episode);
  const beside = other && address("compare", pair(episode, other));
  let now = 1;
  const node = el(
    "article",
    {},
    heading(episode),
    el(
      "nav",
      { class: "bar", "aria-label": "episodes" },
      el("a", { href: address("episodes", listed.params) }, "↑ list"),
      el("span", {}, `${at + 1} of ${around.length.toLocaleString("en")}`),
      before ? link("episode", place(before), "previous episode") : "",
      after ? link("episode", place(after), "next episode") : "",
      beside ? el("a", { href: beside }, "beside another") : "",
      episode.steps && episode.final !== null
        ? el(
            "a",
            {
              href: "#/reward",
              onclick: (event) => {
                event.preventDefault();
                go("reward", { ...place(episode), step: Math.min(now, view.last - 1) }, false);
              },
            },
            "reward of this step",
          )
        : "",
    ),
    el("p", { class: "line" }, el("b", {}, who(episode)), " ", outcome(episode)),
    view.node,
    el(
      "div",
      { class: "parts" },
      checksOf(episode),
      votesOn(episode),
      part(
        "All episodes at this task",
        matrix(episode, (one) => address("episode", place(one))),
      ),
    ),
  );

  function keys(event) {
    const move = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 1, End: view.last }[event.key];
    if (move) return (step(Math.min(Math.max(1, move), view.last)), true);
    if (event.key === "ArrowDown" && after) return (go("episode", place(after)), true);
    if (event.key === "ArrowUp" && before) return (go("episode", place(before)), true);
    if (event.key === "Escape") return (go("episodes", listed.params, false), true);
    if (event.key === "c" && beside) return ((location.hash = beside), true);
    return false;
  }
  function update(next) {
    if (find(next) !== episode) return false;
    now = Math.min(Math.max(1, Number(next.step) || 1), view.last);
    view.show(now);
    return true;
  }
  return { title: `${episode.task}, ${who(episode)}`, node, update, keys };
}

const pair = (left, right) => ({
  task: left.task,
  set: left.set,
  system: left.system,
  run: left.run,
  set2: right.set,
  system2: right.system,
  run2: right.run,
});

function compareView(params) {
  const left = find(params),
    right = find({ task: params.task, set: params.set2, system: params.system2, run: params.run2 });
  if (!left || !right) return missing();
  const step = (number) => go("compare", { ...pair(left, right), step: number });
  const sides = [left, right].map((episode) => ({ episode, view: player(episode, step) }));
  const last = Math.max(...sides.map((side) => side.view.last));
  let now = 1;
  const node = el(
    "article",
    {},
    heading(left),
    el(
      "nav",
      { class: "bar", "aria-label": "episodes" },
      el("a", { href: address("episodes", listed.params) }, "↑ list"),
      el("a", { href: address("compare", pair(right, left)) }, "swap sides"),
    ),
    el(
      "div",
      { class: "sides" },
      sides.map(({ episode, view }, i) =>
        el(
          "section",
          { "aria-label": who(episode) },
          el(
            "p",
            { class: "line" },
            el("a", { href: address("episode", place(episode)) }, el("b", {}, who(episode))),
            " ",
            outcome(episode),
          ),
          view.node,
          el(
            "details",
            {},
            el("summary", {}, "another episode on this side"),
            matrix(episode, (one) => address("compare", i ? pair(left, one) : pair(one, right))),
          ),
          votesOn(episode),
        ),
      ),
    ),
  );

  function keys(event) {
    const move = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 1, End: last }[event.key];
    if (move) return (step(Math.min(Math.max(1, move), last)), true);
    if (event.key === "Escape") return (go("episodes", listed.params, false), true);
    return false;
  }
  function update(next) {
    if (
      find(next) !== left ||
      find({ task: next.task, set: next.set2, system: next.system2, run: next.run2 }) !== right
    )
      return false;
    now = Math.min(Math.max(1, Number(next.step) || 1), last);
    sides.forEach((side) => side.view.show(now));
    return true;
  }
  return { title: `${left.task}: ${who(left)} beside ${who(right)}`, node, update, keys };
}
