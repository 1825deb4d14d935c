// The data of the page: episodes, groups, pictures.

async function unpacked(id) {
  const text = document.getElementById(id).textContent;
  const bytes = Uint8Array.fromBase64
    ? Uint8Array.fromBase64(text)
    : Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

const data = await unpacked("data");
const files = document.getElementById("pictures").textContent.split("\n");
const episodes = data.episodes;
const label = (system) => data.labels[system] ?? system;

/** A picture, or the patch of another one: a file beside the page, or in it. */
function loaded(number) {
  const [kind, content, base, left, top] = files[number].split(",");
  const image = new Image();
  image.src = data.pictures ? `${data.pictures}/${kind}` : `data:image/${kind};base64,${content}`;
  return { image, base: base && Number(base), left: Number(left), top: Number(top) };
}

/** Draw a picture on a canvas; a promise of its width and height. */
async function paint(canvas, number) {
  canvas.dataset.shown = number;
  const part = loaded(number),
    whole = part.base === undefined ? part : loaded(part.base);
  await Promise.all([part.image.decode(), whole.image.decode()]);
  const size = [whole.image.naturalWidth, whole.image.naturalHeight];
  if (canvas.dataset.shown !== String(number)) return size; // another picture was asked for meanwhile
  [canvas.width, canvas.height] = size;
  const context = canvas.getContext("2d");
  context.drawImage(whole.image, 0, 0);
  if (part !== whole) context.drawImage(part.image, part.left, part.top);
  return size;
}

const visible = new IntersectionObserver(
  (changes) => {
    for (const { isIntersecting, target } of changes) {
      if (!isIntersecting) continue;
      visible.unobserve(target);
      paint(target, Number(target.dataset.number));
    }
  },
  { rootMargin: "300px" },
);

/** A small picture, which is drawn when it comes into view. */
function thumbnail(number) {
  const canvas = el("canvas", { "aria-hidden": "true", "data-number": number });
  visible.observe(canvas);
  return canvas;
}

const nameOf = (episode) => [episode.set, episode.system, episode.task, episode.run].join("\n");
const byName = new Map(episodes.map((episode) => [nameOf(episode), episode]));
const byTask = Map.groupBy
  ? Map.groupBy(episodes, (episode) => episode.task)
  : groupedBy(episodes, (episode) => episode.task);

function groupedBy(items, key) {
  const groups = new Map();
  for (const item of items) {
    const name = key(item);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(item);
  }
  return groups;
}

const place = (episode) => ({ set: episode.set, system: episode.system, task: episode.task, run: episode.run });
const find = (params) => byName.get([params.set, params.system, params.task, params.run].join("\n"));
/** Episodes at the same task; train tasks of two planners may share a name and nothing else. */
const attempts = (episode) =>
  byTask
    .get(episode.task)
    .filter(
      (other) =>
        other.app === episode.app &&
        (other.instruction ?? episode.instruction) === (episode.instruction ?? other.instruction),
    );
const screens = (episode) => (episode.steps ? [...episode.steps.map((step) => step.picture), episode.final] : []);

/** The outcome of a rule on an episode, or none: accepted, clean, calls, small, valid. `of` names the set of votes. */
function judged(episode, of, rule) {
  const votes = of ?? (episode.judged?.train ? "train" : "mix");
  const at = (data.rules[votes] ?? []).indexOf(rule || data.standard[votes]);
  const found = episode.judged?.[votes]?.[at];
  return found && { accepted: found[0], clean: found[1], calls: found[2], small: found[3], valid: found[4] };
}

// ---- shares as in the tables of a run -------------------------------------------------------------------------------

/** Average@k and Pass@k: mean over the tasks of an application, then over applications. Episodes without outcome are left out. */
function scores(chosen) {
  const known = chosen.filter((episode) => typeof episode.success === "boolean");
  const apps = [...groupedBy(known, (episode) => episode.app).values()].map((part) => {
    const tasks = [...groupedBy(part, (episode) => episode.task).values()].map((runs) =>
      runs.map((episode) => Number(episode.success)),
    );
    return { average: mean(tasks.map(mean)), pass: mean(tasks.map((runs) => Math.max(...runs))) };
  });
  return {
    episodes: chosen.length,
    tasks: new Set(chosen.map((episode) => `${episode.app}\n${episode.task}`)).size,
    solved: known.filter((episode) => episode.success).length,
    average: mean(apps.map((app) => app.average)),
    pass: mean(apps.map((app) => app.pass)),
    k: Math.max(
      0,
      ...[...groupedBy(chosen, (episode) => `${episode.app}\n${episode.task}\n${episode.system}`).values()].map(
        (runs) => runs.length,
      ),
    ),
  };
}

/** What a rule of a judge makes of episodes: columns of Table 2. `opinion(episode)` is as of `judged`. */
function ruleScores(chosen, opinion) {
  const all = chosen
    .filter((episode) => typeof episode.success === "boolean")
    .map((episode) => [episode, opinion(episode)])
    .filter(([, said]) => said);
  const accepted = all.filter(([, said]) => said.accepted),
    clean = all.filter(([, said]) => said.clean);
  const right = accepted.filter(([episode]) => episode.success).length,
    successes = all.filter(([episode]) => episode.success).length;
  const labels = (part) => part.reduce((sum, [episode]) => sum + (episode.count ?? 0), 0);
  return {
    trajectories: all.length,
    successes,
    accepted: accepted.length,
    right,
    precision: right / accepted.length,
    recall: right / successes,
    coverage: mean(all.map(([, said]) => said.valid)),
    calls: mean(all.map(([, said]) => said.calls)),
    small: mean(all.map(([, said]) => said.small)),
    labels: labels(clean),
    wrong: labels(clean.filter(([episode]) => !episode.success)) / labels(clean),
  };
}
