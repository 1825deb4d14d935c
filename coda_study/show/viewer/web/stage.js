// A screen with actions drawn on it, and an episode step by step.

const WIDTH = 1000; // of the drawing; its height follows from the screenshot

/** An action in words, its points in pixels of the screen; in percent of it where its size is not known. */
function inWords(action, width, height) {
  const at = (x, y) =>
    width
      ? `(${Math.round(x * width)}, ${Math.round(y * height)})`
      : `(${Math.round(x * 100)} %, ${Math.round(y * 100)} %)`;
  const points = [
    action.x === undefined ? "" : at(action.x, action.y),
    action.x2 === undefined ? "" : at(action.x2, action.y2),
  ];
  const parts = [
    action.label,
    action.direction,
    action.text === undefined ? "" : `“${action.text}”`,
    points.filter(Boolean).join(" → "),
  ];
  return parts.filter(Boolean).join(" ");
}

const SCROLLS = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] };

/** The shapes of an action that has a point: a cross is a click (ringed: double, boxed: right), a ring a hover, an arrow a drag. */
function shapes(action, height) {
  if (action.x === undefined) return [];
  const x = action.x * WIDTH,
    y = action.y * height,
    r = 17;
  const cross = svg("path", { d: `M${x - r} ${y - r}L${x + r} ${y + r}M${x - r} ${y + r}L${x + r} ${y - r}` });
  const ring = svg("circle", { cx: x, cy: y, r: 30 });
  const arrow = (toX, toY) => {
    const angle = Math.atan2(toY - y, toX - x),
      side = (turn) => `${toX - 32 * Math.cos(angle + turn)} ${toY - 32 * Math.sin(angle + turn)}`;
    return [
      svg("circle", { cx: x, cy: y, r: 8 }),
      svg("path", { d: `M${x} ${y}L${toX} ${toY}M${side(0.5)}L${toX} ${toY}L${side(-0.5)}` }),
    ];
  };
  switch (action.type) {
    case "left_double":
      return [cross, ring];
    case "right_single":
      return [cross, svg("rect", { x: x - 28, y: y - 28, width: 56, height: 56 })];
    case "hover":
      return [ring];
    case "drag":
      return arrow(action.x2 * WIDTH, action.y2 * height);
    case "scroll":
      return arrow(x + 120 * SCROLLS[action.direction][0], y + 120 * SCROLLS[action.direction][1]);
    case "mouse_down":
    case "mouse_up":
      return [svg("circle", { cx: x, cy: y, r: 10 })];
    default:
      return [cross];
  }
}

/** Draw `drawings`, [action, class, number or text], each over a wide pale line so that it shows on any screen. */
function drawing(drawings, width, height) {
  const tall = (WIDTH * height) / width;
  const parts = drawings.map(([action, kind, text]) => {
    const found = shapes(action, tall);
    const name =
      text === undefined ? [] : svg("text", { x: action.x * WIDTH + 24, y: action.y * tall - 18 }, String(text));
    return found.length
      ? svg(
          "g",
          { class: `mark ${kind}` },
          svg(
            "g",
            { class: "halo" },
            found.map((shape) => shape.cloneNode(true)),
          ),
          found,
          name,
        )
      : [];
  });
  const placeless = drawings.filter(([action, , text]) => action.x === undefined && text === undefined);
  const written = placeless.map(([action, kind], i) =>
    svg(
      "text",
      { class: `said ${kind}`, x: WIDTH / 2, y: tall - 28 - 52 * (placeless.length - 1 - i), "text-anchor": "middle" },
      shortened(inWords(action, width, height), 44),
    ),
  );
  return [parts, written];
}

const shortened = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** A screenshot; `show(number, drawings, alt)` shows another, and promises its width and height; of null, that it is not kept. */
function screen() {
  const canvas = el("canvas", { role: "img" }),
    overlay = svg("svg", { "aria-hidden": "true" });
  const node = el("div", { class: "screen" }, canvas, overlay);
  const bare = el("div", { class: "empty" }, "This screen is not kept.");
  let shown = 0;
  async function show(number, drawings, alt) {
    const turn = ++shown;
    node.replaceChildren(...(number === null ? [bare] : [canvas, overlay]));
    if (number === null) return [];
    canvas.setAttribute("aria-label", alt);
    const [width, height] = await paint(canvas, number);
    if (turn === shown) {
      overlay.setAttribute("viewBox", `0 0 ${WIDTH} ${(WIDTH * height) / width}`);
      overlay.replaceChildren(...drawing(drawings, width, height).flat(Infinity));
    }
    return [width, height];
  }
  return { node, overlay, show };
}

/** An episode step by step. `show(step)`: from 1; one more than there are steps is the end. */
function player(episode, go) {
  if (!episode.steps) {
    const note = "This page has only the outcome of this episode: no screens, no plans, no actions.";
    return { node: el("div", { class: "empty" }, note), show: () => {}, last: 1 };
  }
  const last = episode.steps.length + 1;
  const view = screen();
  const where = el("span", { class: "where", "aria-live": "polite" });
  const said = el("div", { class: "said" });
  const button = (text, name, move) =>
    el("button", { type: "button", "aria-label": name, title: name, onclick: move }, text);
  let at = 1;
  const bar = el(
    "div",
    { class: "bar" },
    button("◀", "previous step (←)", () => go(Math.max(1, at - 1))),
    where,
    button("▶", "next step (→)", () => go(Math.min(last, at + 1))),
  );
  const strip = screens(episode).map((number, i) =>
    el(
      "button",
      { type: "button", onclick: () => go(i + 1), "aria-label": i + 1 === last ? "the end" : `step ${i + 1}` },
      number === null ? "" : thumbnail(number),
      el("span", {}, i + 1 === last ? "end" : String(i + 1)),
    ),
  );
  function show(step) {
    at = Math.min(Math.max(1, step), last);
    const played = episode.steps[at - 1];
    where.replaceChildren(at === last ? "the end" : `step ${at} of ${last - 1}`);
    strip.forEach((thumb, i) =>
      i + 1 === at ? thumb.setAttribute("aria-current", "step") : thumb.removeAttribute("aria-current"),
    );
    strip[at - 1].scrollIntoView({ block: "nearest", inline: "nearest" });
    const seen = view.show(
      played ? played.picture : episode.final,
      (played?.actions ?? []).map((action) => [action, played.error ? "bad" : "act"]),
      played ? `Screen before step ${at}` : "The last screen",
    );
    seen.then((size) => played === episode.steps[at - 1] && fill(played, size));
  }
  function fill(played, size) {
    said.replaceChildren(
      ...(played
        ? [
            part("Plan", el("p", { class: "plan" }, played.plan || "(none)")),
            part(
              "Action",
              played.actions.length
                ? played.actions.map((action) => el("p", {}, inWords(action, ...size)))
                : el("p", {}, "none"),
            ),
            played.error ? part("Error", el("p", { class: "wrong" }, played.error)) : "",
            part("Executor's reply", el("pre", {}, played.reply || "(none)")),
          ]
        : [
            part("Ended by", el("p", {}, episode.stop)),
            episode.answer === undefined ? "" : part("Answer", el("p", {}, episode.answer)),
            part("Outcome", el("p", {}, outcome(episode))),
          ]),
    );
  }
  const node = el(
    "div",
    { class: "player" },
    el(
      "div",
      { class: "seen" },
      view.node,
      bar,
      el("div", { class: "strip", role: "group", "aria-label": "steps" }, strip),
    ),
    said,
  );
  return { node, show, last };
}

const part = (title, ...content) => el("section", { class: "part" }, el("h3", {}, title), content);
