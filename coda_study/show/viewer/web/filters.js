// Filters of episodes. A filter is a parameter of the address, so that every choice is a link.

const SETS = {
  test: "test tasks",
  greedy: "test tasks, at temperature 0",
  train: "train tasks",
  mix: "the mix of Table 2",
  logs: "logs",
};
const votesOf = (params) => ({ mix: "mix", train: "train" })[params.set];

const FIELDS = [
  // name of the parameter, label, the values of an episode, text of a value
  {
    name: "set",
    label: "Tasks",
    of: (e) => (e.judged?.mix ? [e.set, "mix"] : [e.set]),
    text: (value) => SETS[value] ?? value,
  },
  { name: "system", label: "System", of: (e) => [e.system], text: label },
  { name: "app", label: "Application", of: (e) => [e.app] },
  { name: "grade", label: "Grade", of: (e) => (e.grade ? [e.grade] : []) },
  {
    name: "outcome",
    label: "Outcome",
    of: (e) => [e.success === true ? "success" : e.success === false ? "failure" : "unknown"],
  },
  { name: "stop", label: "Ended by", of: (e) => (e.stop ? [e.stop] : []) },
  { name: "ending", label: "How it ended", of: (e) => (e.ending ? [e.ending] : []) },
  { name: "judge", label: "Judge", of: opinions },
  { name: "differs", label: "Other outcome than", of: differing, text: label },
  { name: "task", label: "Task", of: (e) => [e.task] },
];

function opinions(episode, params) {
  const said = judged(episode, votesOf(params), params.rule);
  if (!said) return [];
  const known = typeof episode.success === "boolean";
  return [
    said.accepted ? "accepted" : "rejected",
    ...(said.clean ? ["clean"] : []),
    ...(known ? [Boolean(said.accepted) === episode.success ? "right" : "wrong"] : []),
  ];
}

/** The systems whose episode of the same task and run has another outcome. */
function differing(episode) {
  episode.differing ??=
    typeof episode.success !== "boolean"
      ? []
      : attempts(episode)
          .filter(
            (other) =>
              other.set === episode.set &&
              other.run === episode.run &&
              other.system !== episode.system &&
              other.success === !episode.success,
          )
          .map((other) => other.system);
  return episode.differing;
}

function wordsOf(episode) {
  episode.words ??= [
    episode.task,
    episode.instruction,
    episode.answer,
    ...(episode.steps ?? []).flatMap((step) => [step.plan, step.reply]),
  ]
    .join("\n")
    .toLowerCase();
  return episode.words;
}

/** The episodes that pass all filters, and for each field how many pass all the others, by value. */
function filtered(params) {
  const text = (params.text ?? "").toLowerCase();
  const found = [],
    counts = FIELDS.map(() => new Map());
  for (const episode of episodes) {
    if (text && !wordsOf(episode).includes(text)) continue;
    let failing = -1,
      failures = 0;
    for (let i = 0; i < FIELDS.length && failures < 2; i++) {
      const wanted = params[FIELDS[i].name];
      if (wanted && !FIELDS[i].of(episode, params).includes(wanted)) {
        failing = i;
        failures++;
      }
    }
    if (failures > 1) continue;
    if (!failures) found.push(episode);
    for (let i = 0; i < FIELDS.length; i++)
      if (!failures || failing === i)
        for (const value of FIELDS[i].of(episode, params)) counts[i].set(value, (counts[i].get(value) ?? 0) + 1);
  }
  return { found, counts };
}
