// Rules of judges on the votes of a run, and a laboratory: other rules, other numbers of votes.

/** The outcome if `needed` of up to `most` votes must agree, as a run asks for them: no further vote once it is decided. */
function outcomeOf(votes, most, needed) {
  let correct = 0,
    clean = 0,
    calls = 0;
  const open = (agreeing) => agreeing < needed && agreeing + most - calls >= needed;
  while (open(correct) || open(clean)) {
    if (calls === votes.length) return undefined; // the run did not ask for this vote
    const { says } = votes[calls++];
    correct += says === "correct" || says === "clean";
    clean += says === "clean";
  }
  return { accepted: correct >= needed, clean: clean >= needed, calls, small: 0, valid: 1 };
}

function judgesView(params) {
  const sets = Object.keys(data.rules).filter((of) => data.rules[of].length);
  if (!sets.length)
    return {
      title: "Judges",
      node: el("p", { class: "empty" }, "No votes of a judge are kept in these files."),
      update: () => false,
    };
  const of = params.set ?? (sets.includes("mix") ? "mix" : sets[0]);
  const chosen = episodes.filter((episode) => episode.votes?.some((vote) => vote.of === of));
  const cells = (s) => [
    s.trajectories,
    s.accepted,
    percent(s.precision),
    percent(s.recall),
    Number.isFinite(s.calls) ? s.calls.toFixed(2) : "–",
    s.labels,
    percent(s.wrong),
  ];
  const names = [
    "rule",
    "episodes",
    "accepted",
    "precision, %",
    "recall, %",
    "votes asked",
    "labels",
    "wrong labels, %",
  ];
  const rows = data.rules[of].map((rule) => {
    const s = ruleScores(chosen, (episode) => judged(episode, of, rule));
    const wanted = [params.first, params.second].includes(rule);
    return el(
      "tr",
      { class: wanted ? "wanted" : "", "data-rule": rule },
      el("th", { scope: "row" }, link("episodes", { set: of, rule }, rule)),
      cells(s).map((value, i) =>
        el(
          "td",
          {
            class: "number",
            "data-name": ["trajectories", "accepted", "precision", "recall", "calls", "labels", "wrong_labels"][i],
          },
          i === 1 ? link("episodes", { set: of, rule, judge: "accepted" }, String(value)) : String(value),
        ),
      ),
    );
  });
  const [first, second] = [params.first, params.second].map(
    (rule) => rule && ruleScores(chosen, (episode) => judged(episode, of, rule)),
  );
  const gap =
    first &&
    second &&
    el(
      "p",
      { class: "big" },
      el("output", { "data-name": "difference" }, points(second[params.measure] - first[params.measure])),
      ` percentage points of ${params.measure}: ${params.second} minus ${params.first}`,
    );

  const voters = [
    ...new Set(chosen.flatMap((episode) => episode.votes.filter((vote) => vote.of === of).map((vote) => vote.judge))),
  ];
  const state = { judge: voters[0], most: 1, needed: 1 };
  const cast = (judge) =>
    new Map(chosen.map((episode) => [episode, episode.votes.filter((vote) => vote.of === of && vote.judge === judge)]));
  const number = (name, value, max, change) => {
    const text = el("b", {}, String(value)),
      input = el("input", {
        type: "range",
        min: 1,
        max,
        step: 1,
        value,
        oninput: () => {
          text.replaceChildren(input.value);
          change(Number(input.value));
        },
      });
    return el("label", { class: "field" }, el("span", {}, name, " ", text), input);
  };
  const lab = el("div", { class: "lab" }),
    found = el("div", { "aria-live": "polite" });

  function controls() {
    const votes = cast(state.judge),
      largest = Math.max(...[...votes.values()].map((cast_) => cast_.length));
    state.most = Math.min(state.most, largest);
    state.needed = Math.min(state.needed, state.most);
    const judge = choice(
      "Judge",
      state.judge,
      voters.map((one) => [one, JUDGES[one] ?? one]),
      (value) => {
        Object.assign(state, { judge: value });
        controls();
      },
    );
    const needed = () =>
      number("that must agree:", state.needed, state.most, (value) => {
        state.needed = value;
        result(votes, largest);
      });
    let second_ = needed();
    const most = number("Votes:", state.most, largest, (value) => {
      state.needed = state.needed === state.most ? value : Math.min(state.needed, value); // unanimous stays unanimous
      state.most = value;
      const fresh = needed();
      second_.replaceWith(fresh);
      second_ = fresh;
      result(votes, largest);
    });
    lab.replaceChildren(
      el("form", { class: "row", onsubmit: (event) => event.preventDefault() }, judge, most, second_),
      found,
    );
    result(votes, largest);
  }

  function result(votes, largest) {
    const opinion = (most, needed) => (episode) => outcomeOf(votes.get(episode), most, needed);
    const own = opinion(state.most, state.needed),
      s = ruleScores(chosen, own);
    const unknown = chosen.filter((episode) => !own(episode)).length;
    const wrong = chosen.filter((episode) => episode.success === false && own(episode)?.accepted);
    const dots = [];
    for (let most = 1; most <= largest; most++)
      for (let needed = 1; needed <= most; needed++)
        dots.push([most, needed, ruleScores(chosen, opinion(most, needed))]);
    found.replaceChildren(
      table(
        names,
        [
          el(
            "tr",
            {},
            el("th", { scope: "row" }, `${state.needed} of ${state.most}`),
            cells(s).map((value) => el("td", { class: "number" }, String(value))),
          ),
        ],
        { class: "summary" },
      ),
      unknown
        ? el(
            "p",
            { class: "quiet" },
            `${count(unknown, "episode")} left out: the run stopped asking before this rule is decided.`,
          )
        : "",
      scatter(dots),
      part(
        `${count(wrong.length, "episode")} accepted and not solved`,
        el(
          "ul",
          { class: "short" },
          wrong
            .slice(0, 12)
            .map((episode) =>
              el("li", {}, link("episode", place(episode), episode.task), ` ${episode.instruction ?? ""}`),
            ),
        ),
      ),
    );
  }

  function scatter(dots) {
    const at = (s) => [60 + 400 * s.recall, 240 - 210 * s.precision];
    const known = dots.filter(([, , s]) => Number.isFinite(s.precision) && Number.isFinite(s.recall));
    const text = (x, y, content, properties = {}) => svg("text", { x, y, ...properties }, content);
    return svg(
      "svg",
      {
        class: "chart",
        viewBox: "0 0 500 285",
        role: "img",
        "aria-label": "precision over recall of every rule on these votes",
      },
      [0, 0.5, 1].flatMap((tick) => [
        svg("line", { x1: 60, x2: 460, y1: 240 - 210 * tick, y2: 240 - 210 * tick }),
        text(52, 244 - 210 * tick, `${100 * tick}`, { "text-anchor": "end" }),
        text(60 + 400 * tick, 258, `${100 * tick}`, { "text-anchor": "middle" }),
      ]),
      text(260, 278, "recall, %", { "text-anchor": "middle" }),
      text(16, 140, "precision, %", { "text-anchor": "middle", transform: "rotate(-90 16 140)" }),
      known.map(([most, needed, s]) => {
        const [x, y] = at(s),
          own = most === state.most && needed === state.needed;
        return svg(
          "g",
          { class: own ? "own" : "" },
          svg("circle", { cx: x, cy: y, r: own ? 8 : 5 }, svg("title", {}, `${needed} of ${most}`)),
          own ? text(x + 12, y - 8, `${needed} of ${most}`) : [],
        );
      }),
    );
  }

  controls();
  const node = el(
    "article",
    {},
    el("h1", {}, "Judges"),
    sets.length > 1
      ? el(
          "form",
          { class: "row", onsubmit: (event) => event.preventDefault() },
          choice(
            "Votes",
            of,
            sets.map((one) => [
              one,
              one === "mix" ? "Table 2: all judges on the same episodes" : "the run's own, on train tasks",
            ]),
            (value) => go("judges", { set: value }),
          ),
        )
      : "",
    gap ?? "",
    table(names, rows, { class: "summary" }),
    el(
      "p",
      { class: "quiet" },
      "Precision: share of the accepted episodes that the application's own check calls solved. Recall: share of the solved ones that are accepted. Labels: steps of clean episodes, which would be trained on.",
    ),
    el("h2", {}, "Try another rule"),
    lab,
  );
  return { title: "Judges", node, update: (next) => address("judges", next) === address("judges", params) };
}
