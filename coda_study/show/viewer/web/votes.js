// What judges said of an episode, beside the truth.

const SAYS = {
  clean: ["clean", "good"],
  correct: ["correct", "good"],
  wrong: ["not correct", "bad"],
  invalid: ["no verdict", ""],
};
const VOTES = { train: "the run's judge", mix: "the judges of Table 2", logs: "a judge" };
const JUDGES = { judge: "judge", low: "judge on small screens", base: "base judge" };

function votesOn(episode) {
  if (!episode.votes?.length) return part("Judge", el("p", { class: "quiet" }, "No votes are kept on this episode."));
  const groups = [...groupedBy(episode.votes, (vote) => vote.of)];
  return groups.map(([of, votes]) => {
    const said = judged(episode, of);
    const known = typeof episode.success === "boolean";
    const verdict =
      said &&
      el(
        "p",
        {},
        `By the rule ${data.standard[of]}: `,
        badge(said.accepted ? "accepted" : "rejected", said.accepted ? "good" : "bad"),
        known
          ? [
              " ",
              badge(
                Boolean(said.accepted) === episode.success ? "right" : "wrong",
                Boolean(said.accepted) === episode.success ? "good" : "bad",
              ),
            ]
          : "",
        said.clean && of === "train" ? " All its actions became labels." : "",
      );
    const rows = votes.map((vote) =>
      row(JUDGES[vote.judge] ?? vote.judge, badge(...SAYS[vote.says]), el("pre", {}, vote.reply)),
    );
    return part(`Votes of ${VOTES[of]}`, verdict, table(["judge", "says", "reply"], rows));
  });
}

function checksOf(episode) {
  const task = data.tasks[episode.asked];
  return part(
    "Outcome",
    el(
      "p",
      {},
      outcome(episode),
      " by the application's own check",
      episode.ending ? [" · ", episode.ending] : "",
      ` · ended by ${episode.stop ?? "?"} · ${count(episode.count ?? 0, "step")}`,
    ),
    episode.answer === undefined ? "" : el("p", {}, "Answer: ", el("code", {}, episode.answer)),
    task
      ? [
          el("p", {}, "The check asks at the end that"),
          el(
            "ul",
            {},
            task.checks.map((text) => el("li", {}, el("code", {}, text))),
          ),
        ]
      : el("p", { class: "quiet" }, "The items of the check are not kept with this episode."),
  );
}
