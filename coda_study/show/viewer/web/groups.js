// GRPO groups: the plans for one state, the actions that the executor made of them, rewards and advantages.

function groupsView(params) {
  const groups = data.groups;
  if (!groups.length)
    return {
      title: "GRPO groups",
      node: el(
        "p",
        { class: "empty" },
        "No GRPO group is kept in these files. A run of this version keeps some of each training.",
      ),
      update: () => false,
    };
  const at = Math.min(Math.max(0, Number(params.n) || 0), groups.length - 1),
    group = groups[at];
  const view = screen();
  let chosen = null;
  const rewards = group.plans.map((plan) => plan.reward),
    middle = mean(rewards);
  const kind = (plan) => (plan.advantage > 0 ? "above" : plan.advantage < 0 ? "below" : "even");
  let size = [336, 252];
  const draw = () =>
    view.show(
      group.picture,
      [
        ...group.target.map((action) => [action, "target"]),
        ...group.plans.flatMap((plan, i) =>
          chosen === null || chosen === i
            ? plan.actions.filter((action) => action.x !== undefined).map((action) => [action, kind(plan), i + 1])
            : [],
        ),
      ],
      "The screen of the state, with the actions of the plans",
    );
  const rows = group.plans.map((plan, i) =>
    el(
      "tr",
      {
        tabindex: 0,
        onfocus: () => {
          chosen = i;
          draw();
        },
        onblur: () => {
          chosen = null;
          draw();
        },
        onmouseenter: () => {
          chosen = i;
          draw();
        },
        onmouseleave: () => {
          chosen = null;
          draw();
        },
      },
      el("th", { scope: "row" }, String(i + 1)),
      el("td", {}, plan.plan),
      el("td", {}, plan.error ?? plan.actions.map((action) => inWords(action, ...size)).join("; ")),
      el(
        "td",
        { class: "number" },
        el("meter", { class: kind(plan), min: 0, max: 2, value: plan.reward, "aria-hidden": "true" }),
        plan.reward.toFixed(2),
      ),
      el(
        "td",
        { class: `number ${kind(plan)}` },
        `${plan.advantage > 0 ? "+" : plan.advantage < 0 ? "−" : ""}${Math.abs(plan.advantage).toFixed(2)}`,
      ),
    ),
  );
  const name = (one) => `${label(one.planner)}, ${one.app}, step ${one.step}: ${shortened(one.instruction, 60)}`;
  const node = el(
    "article",
    {},
    el(
      "header",
      { class: "about" },
      el("h1", {}, group.instruction),
      el("p", {}, `${label(group.planner)} · ${group.app} · optimizer step ${group.step}`),
    ),
    el(
      "form",
      { class: "row", onsubmit: (event) => event.preventDefault() },
      choice(
        "Group",
        at,
        groups.map((one, i) => [i, name(one)]),
        (value) => go("groups", { n: value }),
      ),
    ),
    el(
      "div",
      { class: "player" },
      el("div", { class: "seen" }, view.node),
      el(
        "div",
        { class: "said" },
        part(
          "Plans so far",
          group.history.length
            ? el(
                "ol",
                {},
                group.history.map((plan) => el("li", {}, plan)),
              )
            : el("p", {}, "none: the first step"),
        ),
        part(
          "Labelled action (green)",
          group.target.map((action) => el("p", {}, inWords(action, ...size))),
        ),
        part(
          "Group",
          el(
            "p",
            {},
            `${group.plans.length} plans, mean reward ${middle.toFixed(2)} of 2. A plan above the mean has a positive advantage and becomes more likely.`,
          ),
        ),
      ),
    ),
    table(["", "plan", "action", "reward", "advantage"], rows, { class: "wide plans" }),
  );
  draw();
  const keys = (event) => {
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1 }[event.key];
    return next === undefined ? false : (go("groups", { n: Math.min(Math.max(0, next), groups.length - 1) }), true);
  };
  return { title: "GRPO groups", node, keys, update: (next) => (Number(next.n) || 0) === at };
}
