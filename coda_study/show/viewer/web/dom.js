// Elements. All text goes into the page as text nodes and attribute values, never as markup.

function make(create, name, properties, children) {
  const node = create(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "selected" || key === "checked") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const el = (name, properties = {}, ...children) =>
  make((tag) => document.createElement(tag), name, properties, children);
const svg = (name, properties = {}, ...children) =>
  make((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag), name, properties, children);

/** The address of a view with its parameters; empty ones are left out. */
function address(view, params = {}) {
  const query = new URLSearchParams(
    Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== ""),
  );
  return `#/${view}${query.size ? `?${query}` : ""}`;
}

const link = (view, params, ...children) => el("a", { href: address(view, params) }, ...children);

/** A labelled choice; `options` are [value, text]. */
function choice(label, value, options, change) {
  const list = el(
    "select",
    { onchange: (event) => change(event.target.value) },
    options.map(([key, text]) => el("option", { value: key, selected: String(key) === String(value ?? "") }, text)),
  );
  return el("label", { class: "field" }, el("span", {}, label), list);
}

function table(head, rows, properties = {}) {
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      properties,
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          head.map((text) => el("th", { scope: "col" }, text)),
        ),
      ),
      el("tbody", {}, rows),
    ),
  );
}

const row = (...cells) =>
  el(
    "tr",
    {},
    cells.map((cell) => el("td", {}, cell)),
  );
const badge = (text, kind = "") => el("span", { class: `badge ${kind}` }, text);
const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
const percent = (share) => (Number.isFinite(share) ? rounded(100 * share) : "–");
const points = (share) =>
  Number.isFinite(share) ? `${share > 0 ? "+" : share < 0 ? "−" : ""}${rounded(Math.abs(100 * share))}` : "–";
/** One decimal; halves go to the even digit, as in the tables of a run. */
function rounded(value) {
  const tenths = Math.floor(10 * value),
    rest = 10 * value - tenths;
  return ((tenths + (rest > 0.5 || (rest === 0.5 && tenths % 2))) / 10).toFixed(1);
}
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function outcome(episode) {
  if (episode.success === true) return badge("✓ solved", "good");
  if (episode.success === false) return badge("✗ not solved", "bad");
  return badge(episode.score === undefined ? "not checked" : `score ${episode.score}`);
}
