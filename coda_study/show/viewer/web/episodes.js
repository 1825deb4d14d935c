// The list of episodes with its filters.

const SHOWN = 60; // episodes before "show more"
const DETAILS = ["outcome", "judge", "ending", "stop", "differs"]; // filters that the shares above the list do not follow
let listed = { found: [], params: {} }; // what the list showed last: "next episode" goes on in it

function episodesView(params) {
  const search = el("input", {
    type: "search",
    value: params.text ?? "",
    placeholder: "task, plan, reply …",
    oninput: () => change("text", search.value),
  });
  const fields = FIELDS.map((field) => {
    const list = el("select", { onchange: () => change(field.name, list.value) });
    return { ...field, list, node: el("label", { class: "field" }, el("span", {}, field.label), list) };
  });
  const rules = el("select", { onchange: () => change("rule", rules.value) });
  const rule = el("label", { class: "field" }, el("span", {}, "Rule of the judge"), rules);
  const results = el("section", { class: "results", "aria-label": "episodes" });
  const heading = el("h1", { "aria-live": "polite" });
  const filters = el(
    "form",
    { class: "filters", "aria-label": "filters", onsubmit: (event) => event.preventDefault() },
    el("label", { class: "field" }, el("span", {}, "Text (/)"), search),
    fields.map((field) => field.node),
    rule,
    el("button", { type: "button", onclick: () => go("episodes", {}) }, "Clear filters"),
  );
  let now = params,
    limit = SHOWN;

  function change(name, value) {
    go("episodes", { ...now, [name]: value, metric: name === "text" ? now.metric : undefined });
  }

  function update(next) {
    now = next;
    limit = SHOWN;
    const { found, counts } = filtered(now);
    listed = { found, params: now };
    if (document.activeElement !== search) search.value = now.text ?? "";
    fields.forEach((field, i) => {
      const chosen = now[field.name] ?? "",
        values = [...counts[i]].sort(([a], [b]) =>
          field.name === "system" ? 0 : a.localeCompare(b, "en", { numeric: true }),
        );
      if (chosen && !counts[i].has(chosen)) values.push([chosen, 0]);
      field.node.hidden = !values.length;
      field.node.classList.toggle("set", Boolean(chosen));
      field.list.replaceChildren(
        el("option", { value: "" }, "any"),
        ...values.map(([value, number]) =>
          el(
            "option",
            { value, selected: value === chosen },
            `${field.text?.(value) ?? value} (${number.toLocaleString("en")})`,
          ),
        ),
      );
    });
    const names = data.rules[votesOf(now) ?? "train"] ?? data.rules.mix ?? [];
    rule.hidden = names.length < 2;
    rules.replaceChildren(
      ...["", ...names].map((name) =>
        el("option", { value: name, selected: name === (now.rule ?? "") }, name || "the run's own"),
      ),
    );
    heading.replaceChildren(`${count(found.length, "episode")}`);
    show(found);
    return true;
  }

  function show(found) {
    const base = filtered(Object.fromEntries(Object.entries(now).filter(([name]) => !DETAILS.includes(name)))).found;
    const more =
      found.length > limit &&
      el(
        "button",
        {
          type: "button",
          onclick: () => {
            limit += 200;
            show(found);
          },
        },
        `Show ${Math.min(200, found.length - limit)} more`,
      );
    results.replaceChildren(
      heading,
      summary(base),
      judgeSummary(base),
      el(
        "ol",
        { class: found.slice(0, limit).some((episode) => episode.steps) ? "list" : "list plain" },
        found.slice(0, limit).map(entry),
      ),
      more || "",
    );
  }

  function summary(chosen) {
    const parts = [...groupedBy(chosen, (episode) => `${episode.set}\n${episode.system}`).values()].map((part) => [
      part[0],
      scores(part),
    ]);
    const sets = new Set(parts.map(([first]) => first.set)),
      sizes = new Set(parts.map(([, s]) => s.k));
    const rows = parts.map(([{ set, system }, s]) => {
      const cells = [
        ["average", percent(s.average)],
        ["pass", percent(s.pass)],
      ].map(([name, text]) =>
        el("td", { class: `number ${now.metric?.toLowerCase() === name ? "wanted" : ""}`, "data-name": name }, text),
      );
      return el(
        "tr",
        { "data-system": system },
        el("th", { scope: "row" }, label(system), sets.size > 1 ? el("small", {}, ` ${SETS[set]}`) : ""),
        [s.episodes, s.tasks, s.solved].map((n) => el("td", { class: "number" }, n.toLocaleString("en"))),
        cells,
      );
    });
    const k = sizes.size === 1 ? [...sizes][0] : "k";
    return rows.length
      ? table(["system", "episodes", "tasks", "solved", `Average@${k}, %`, `Pass@${k}, %`], rows, { class: "summary" })
      : "";
  }

  function judgeSummary(chosen) {
    const s = ruleScores(chosen, (episode) => judged(episode, votesOf(now), now.rule));
    if (!s.trajectories || !(votesOf(now) || now.judge)) return "";
    const of = votesOf(now) ?? "train",
      cells = {
        trajectories: s.trajectories,
        successes: s.successes,
        accepted: s.accepted,
        precision: percent(s.precision),
        recall: percent(s.recall),
        coverage: percent(s.coverage),
        calls: s.calls.toFixed(2),
        small: s.small.toFixed(2),
        labels: s.labels,
        wrong_labels: percent(s.wrong),
      };
    const names = [
      "rule",
      "episodes",
      "solved",
      "accepted",
      "precision, %",
      "recall, %",
      "coverage, %",
      "votes asked",
      "of these small",
      "labels",
      "wrong labels, %",
    ];
    const rows = el(
      "tr",
      {},
      el("th", { scope: "row" }, now.rule ?? data.standard[of]),
      Object.entries(cells).map(([name, value]) => el("td", { class: "number", "data-name": name }, String(value))),
    );
    return table(names, [rows], { class: "summary judge" });
  }

  function entry(episode) {
    const said = judged(episode, votesOf(now), now.rule);
    const seen = screens(episode);
    return el(
      "li",
      {},
      el(
        "a",
        { href: address("episode", place(episode)), class: "entry" },
        Number.isInteger(seen.at(-1)) ? thumbnail(seen.at(-1)) : el("span", { class: "nothing" }, "no screens"),
        el("span", { class: "what" }, el("b", {}, episode.task), " ", el("span", {}, episode.instruction ?? "")),
        el(
          "span",
          { class: "who" },
          label(episode.system),
          el("small", {}, `run ${episode.run}${episode.set === "greedy" ? ", at temperature 0" : ""}`),
        ),
        el(
          "span",
          { class: "how" },
          outcome(episode),
          said ? [" ", badge(said.accepted ? "judge: yes" : "judge: no")] : "",
          el("small", {}, `${count(episode.count ?? 0, "step")}, ${episode.stop ?? "end not kept"}`),
        ),
      ),
    );
  }

  function keys(event) {
    if (event.key === "/") return (search.focus(), true);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return false;
    const entries = [...results.querySelectorAll(".entry")];
    entries[Math.min(Math.max(0, entries.indexOf(document.activeElement) + step), entries.length - 1)]?.focus();
    return true;
  }

  return { title: "Episodes", node: el("div", { class: "columns" }, filters, results), update, keys };
}
