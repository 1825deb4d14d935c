// The reward of eq. 1, to try: an action drawn on a screen, against the action of a step. As in coda_lib/reward.py.

const POINTS = ["click", "left_double", "right_single", "hover", "mouse_down", "mouse_up"],
  TEXTS = ["type", "answer"],
  CHORDS = ["hotkey", "press", "release"];
const MARGIN = 0.03,
  MODIFIERS = ["ctrl", "shift", "alt", "win"];
const KINDS = {
  click: "click",
  left_double: "double click",
  right_single: "right click",
  hover: "hover",
  drag: "drag",
  scroll: "scroll",
  type: "type",
  hotkey: "hotkey",
  wait: "wait",
  finished: "done",
  call_user: "give up",
  answer: "answer",
};

function similarity(action, target, reach) {
  if (action.type !== target.type) return 0;
  const [a, b] = [action, target].map((one) => (one.x === undefined ? { ...one, x: 0.5, y: 0.5 } : one));
  const near = () => Math.max(0, 1 - (Math.abs(a.x - b.x) + Math.abs(a.y - b.y)) / reach);
  if (POINTS.includes(a.type)) return near();
  if (a.type === "drag") return overlap(a, b) * cosine(a, b);
  if (a.type === "scroll") return a.direction === b.direction ? near() : 0;
  if (TEXTS.includes(a.type)) return alike([...a.text], [...b.text]);
  if (CHORDS.includes(a.type)) return alike(chord(a.text), chord(b.text));
  return 1;
}

const boxOf = (a) => ({
  left: Math.min(a.x, a.x2) - MARGIN,
  right: Math.max(a.x, a.x2) + MARGIN,
  top: Math.min(a.y, a.y2) - MARGIN,
  bottom: Math.max(a.y, a.y2) + MARGIN,
});
const area = (box) => Math.max(0, box.right - box.left) * Math.max(0, box.bottom - box.top);

function overlap(a, b) {
  const [p, q] = [boxOf(a), boxOf(b)];
  const common = area({
    left: Math.max(p.left, q.left),
    right: Math.min(p.right, q.right),
    top: Math.max(p.top, q.top),
    bottom: Math.min(p.bottom, q.bottom),
  });
  return Math.min(1, common / (area(p) + area(q) - common));
}

function cosine(a, b) {
  const [u, v] = [a, b].map((one) => [one.x2 - one.x, one.y2 - one.y]),
    lengths = Math.hypot(...u) * Math.hypot(...v);
  if (!lengths) return Number(u[0] === v[0] && u[1] === v[1]);
  return Math.min(1, Math.max(0, (u[0] * v[0] + u[1] * v[1]) / lengths));
}

function alike(a, b) {
  let line = Array.from({ length: b.length + 1 }, (_, j) => j);
  a.forEach((x, i) => {
    const next = [i + 1];
    b.forEach((y, j) => next.push(Math.min(next[j] + 1, line[j + 1] + 1, line[j] + (x !== y))));
    line = next;
  });
  const longest = Math.max(a.length, b.length);
  return longest ? 1 - line[b.length] / longest : 1;
}

function chord(text) {
  const keys = text.trim().toLowerCase().split(/\s+/);
  return [...keys.filter((key) => MODIFIERS.includes(key)).sort(), ...keys.filter((key) => !MODIFIERS.includes(key))];
}

/** How r_dist comes about, in words. */
function reason(action, target, reach) {
  const fixed = (value) => value.toFixed(3);
  if (action.type !== target.type) return `other types: r_dist = 0`;
  if (POINTS.includes(action.type) || action.type === "scroll") {
    if (action.type === "scroll" && action.direction !== target.direction) return "other directions: r_dist = 0";
    return `1 − (|Δx| + |Δy|) / reach = 1 − (${fixed(Math.abs((action.x ?? 0.5) - (target.x ?? 0.5)))} + ${fixed(Math.abs((action.y ?? 0.5) - (target.y ?? 0.5)))}) / ${reach}`;
  }
  if (action.type === "drag")
    return `IoU of the boxes × cosine = ${fixed(overlap(action, target))} × ${fixed(cosine(action, target))}`;
  if (TEXTS.includes(action.type) || CHORDS.includes(action.type)) return "1 − edit distance / length of the longer";
  return "no place and no text: 1";
}

/** Whether a step has a screen and an action with a point. */
const drawable = (step) => step.picture !== null && step.actions.some((action) => action.x !== undefined);

function rewardView(params) {
  const episode =
    find(params) ??
    episodes.find((one) => one.steps?.some(drawable));
  if (!episode?.steps || episode.final === null)
    return {
      title: "Reward",
      node: el("p", { class: "empty" }, "No episode of this page has screens to draw on."),
      update: () => false,
    };
  const number = Math.min(
    Math.max(
      1,
      Number(params.step) || 1 + episode.steps.findIndex(drawable),
    ),
    episode.steps.length,
  );
  const step = episode.steps[number - 1],
    target = step.actions[0] ?? { type: "wait", label: "wait" };
  const start = { x: target.x ?? 0.5, y: target.y ?? 0.5 };
  let action = { ...target, ...(target.x === undefined ? {} : { x: Math.min(1, start.x + 0.1) }) },
    reach = data.reach;
  const view = screen(),
    terms = el("div", { "aria-live": "polite" }),
    inputs = el("div", { class: "row" });

  function choose(type) {
    const from = { x: action.x ?? start.x, y: action.y ?? start.y };
    action = { type, label: KINDS[type] };
    if (POINTS.includes(type) || type === "drag" || type === "scroll") Object.assign(action, from);
    if (type === "drag") Object.assign(action, { x2: Math.min(1, from.x + 0.2), y2: from.y });
    if (type === "scroll") action.direction = "down";
    if (TEXTS.includes(type)) action.text = target.text ?? "42";
    if (CHORDS.includes(type)) action.text = target.text ?? "ctrl c";
    fields();
    draw();
  }

  function fields() {
    const field = (name, text, properties) => {
      const input = el("input", {
        ...properties,
        value: typeof action[name] === "number" ? Number(action[name].toFixed(3)) : action[name],
        oninput: () => {
          action[name] = properties.type === "number" ? Math.min(1, Math.max(0, Number(input.value))) : input.value;
          draw();
        },
      });
      return el("label", { class: "field" }, el("span", {}, text), input);
    };
    const share = { type: "number", min: 0, max: 1, step: 0.01 };
    inputs.replaceChildren(
      choice("Type", action.type, Object.entries(KINDS), choose),
      ...["x", "y", "x2", "y2"]
        .filter((name) => action[name] !== undefined)
        .map((name) => field(name, `${name}, share of the screen`, share)),
      action.text === undefined ? "" : field("text", "text", { type: "text" }),
      action.direction === undefined
        ? ""
        : choice(
            "direction",
            action.direction,
            Object.keys(SCROLLS).map((one) => [one, one]),
            (value) => {
              action.direction = value;
              draw();
            },
          ),
      el(
        "label",
        { class: "field" },
        el("span", {}, `reach (of the run: ${data.reach})`),
        el("input", {
          type: "number",
          min: 0.1,
          max: 2,
          step: 0.1,
          value: reach,
          oninput: (event) => {
            reach = Math.min(2, Math.max(0.1, Number(event.target.value) || data.reach));
            draw();
          },
        }),
      ),
    );
  }

  function draw() {
    const same = Number(action.type === target.type),
      distance = similarity(action, target, reach);
    view.show(
      step.picture,
      [
        [target, "target"],
        [action, "act"],
      ],
      "The screen, with the labelled action and yours",
    );
    terms.replaceChildren(
      el(
        "p",
        { class: "big" },
        "r = ",
        el("output", { "data-name": "reward" }, (same + distance).toFixed(3)),
        el("small", {}, "of 2"),
      ),
      el(
        "dl",
        {},
        el("dt", {}, `type term 1[type(a) = type(a_T)] = ${same}`),
        el("dd", {}, same ? `both are “${target.label}”` : `“${action.label}” is not “${target.label}”`),
        el("dt", {}, `distance term r_dist = ${distance.toFixed(3)}`),
        el("dd", {}, reason(action, target, reach)),
      ),
    );
  }

  let from = null;
  const at = (event) => {
    const box = view.overlay.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height].map((value) =>
      Math.min(1, Math.max(0, Number(value.toFixed(3)))),
    );
  };
  view.node.classList.add("drawn");
  view.overlay.addEventListener("pointerdown", (event) => {
    from = at(event);
    view.overlay.setPointerCapture(event.pointerId);
  });
  view.overlay.addEventListener("pointerup", (event) => {
    if (!from) return;
    const [x, y] = from,
      [x2, y2] = at(event);
    const dragged = Math.hypot(x2 - x, y2 - y) > 0.02;
    if (dragged) action = { type: "drag", label: "drag", x, y, x2, y2 };
    else if (action.type === "drag" || action.x === undefined) action = { type: "click", label: "click", x, y };
    else Object.assign(action, { x, y });
    from = null;
    fields();
    draw();
  });
  fields();
  draw();
  const node = el(
    "article",
    {},
    heading(episode),
    el(
      "nav",
      { class: "bar" },
      el("a", { href: address("episode", { ...place(episode), step: number }) }, `↑ step ${number} of this episode`),
    ),
    el(
      "p",
      {},
      "The labelled action a_T is green. Draw yours on the screen, by a click or a drag, or choose its type and numbers.",
    ),
    el(
      "div",
      { class: "player" },
      el("div", { class: "seen" }, view.node),
      el(
        "div",
        { class: "said" },
        part("Reward (eq. 1)", terms),
        part("Labelled action", el("p", {}, inWords(target, 336, 252))),
      ),
    ),
    inputs,
  );
  return { title: "Reward", node, update: (next) => address("reward", next) === address("reward", params) };
}
