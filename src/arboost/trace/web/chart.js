// Charts: gain against threshold for every feature of a node; predictions against labels; the metric by round.

const MAX_PANELS = 6;
const MAX_POINTS = 60;
const HIGHEST = 38; // where the largest gain is drawn: its number has room below the feature's name

const scale = (from, to, low, high) => (x) => low + ((x - from) / (to - from || 1)) * (high - low);

function bestOf(candidates) {
  return Math.max(...candidates.map((c) => (c.verdict === "light" ? -Infinity : c.gain)));
}

// ---- gain against threshold ----

function drawGains(element, scene, node, shown, onPick) {
  const { data, run, tree } = scene;
  const byFeature = data.features.map((_, f) => node.candidates.filter((c) => c.feature === f));
  const order = byFeature.map((_, f) => f).filter((f) => byFeature[f].length);
  if (order.length > 3) order.sort((a, b) => bestOf(byFeature[b]) - bestOf(byFeature[a])); // the best in sight
  order.length = Math.min(order.length, MAX_PANELS);
  const perRow = Math.max(1, Math.min(order.length, Math.floor(element.clientWidth / 215)));
  const width = Math.floor(element.clientWidth / perRow) - 8, height = 194;
  const gains = node.candidates.map((c) => c.gain);
  const top = Math.max(...gains, 0), bottom = Math.min(...gains, 0), gamma = run.params.gamma;
  const ceiling = gamma > top && gamma <= 1.8 * top ? gamma : top;
  const y = scale(bottom, ceiling || 1, height - 58, HIGHEST);
  element.replaceChildren();
  for (const f of order) {
    const panel = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "gains", role: "group" });
    panel.setAttribute("aria-label", `Gain against threshold for ${data.features[f].name}`);
    element.append(panel);
    gainPanel(panel, scene, node, f, byFeature[f], shown, { width, height, y, gamma, inside: gamma <= ceiling }, onPick);
  }
}

function gainPanel(panel, { data, tree }, node, f, candidates, shown, box, onPick) {
  const present = data.X.map((row) => row[f]).filter((v) => v !== null);
  const low = Math.min(...present), high = Math.max(...present);
  const hasMissing = candidates.some((c) => c.n_missing);
  const margin = hasMissing ? 58 : 22;
  const inner = scale(low, high, margin, box.width - margin);
  const x = (v) => (v < low ? 12 : v > high ? box.width - 12 : low === high ? box.width / 2 : inner(v));
  svg("text", { class: "feature", x: 6, y: 13 }, panel).textContent = clip(data.features[f].name, 26);
  svg("line", { class: "axis", x1: 4, x2: box.width - 4, y1: box.y(0), y2: box.y(0) }, panel);
  if (box.gamma > 0) gammaLine(panel, box);
  const lost = node.rows.some((r) => data.X[r][f] === null);
  const goesLeft = shown !== null && shown.feature === f && shown.default_left;
  const room = lost ? (goesLeft ? [60, box.width] : [0, box.width - 60]) : [0, box.width];
  ticks(panel, data, f, [...new Set(present)].sort((a, b) => a - b), x, box, room);
  if (lost) {
    svg("text", { class: "tick", x: goesLeft ? 4 : box.width - 4, y: box.height - 4, "text-anchor": goesLeft ? "start" : "end" }, panel).textContent = "missing";
  }
  rowDots(panel, data, tree, node, f, shown, x, box);
  if (candidates.length > 40) panel.classList.add("dense");
  candidates.forEach((c) => lollipop(panel, data, node, c, shown === c, x(c.threshold), box, onPick));
}

function gammaLine(panel, box) {
  const at = box.inside ? box.y(box.gamma) : HIGHEST - 2;
  const group = svg("g", { class: "gamma" }, panel);
  svg("line", { x1: 4, x2: box.width - 4, y1: at, y2: at }, group);
  const text = svg("text", { x: box.width - 6, y: box.inside && at < HIGHEST + 8 ? at + 11 : at - 4, "text-anchor": "end" }, group);
  text.textContent = `γ ${fmt(box.gamma)}${box.inside ? "" : " ↑"}`;
}

function ticks(panel, data, f, values, x, box, room) {
  const few = values.length <= 12 ? values : [values[0], values[Math.floor(values.length / 2)], values[values.length - 1]];
  let last = -Infinity;
  for (const v of few) {
    if (x(v) - last < 30 || (values.length > 2 && (x(v) < room[0] || x(v) > room[1]))) continue;
    last = x(v);
    const named = data.features[f].values[Number.isInteger(v) ? `${v}.0` : String(v)];
    svg("text", { class: "tick", x: x(v), y: box.height - 4, "text-anchor": "middle" }, panel).textContent = clip(named ?? fmt(Number(v.toPrecision(3))), 8);
  }
}

// The node's rows below the axis: by side of the candidate shown, else by the sign of their residual.
function rowDots(panel, data, tree, node, f, shown, x, box) {
  const largest = Math.max(...tree.g.map(Math.abs)) || 1;
  const stacked = new Map();
  for (const r of node.rows) {
    const v = data.X[r][f];
    const side = shown ? sideOfRow(data, shown, r) : null;
    const goesLeft = shown && shown.feature === f && shown.default_left;
    const at = v === null ? (goesLeft ? 12 : box.width - 12) : x(v);
    const key = Math.round(at / 5), level = stacked.get(key) ?? 0;
    stacked.set(key, level + 1);
    if (level > 2) continue;
    const radius = 2.2 + 2.6 * Math.sqrt(Math.abs(tree.g[r]) / largest);
    const sign = tree.g[r] > 0 ? "negative" : tree.g[r] < 0 ? "positive" : "zero";
    const dot = svg("circle", { class: `dot ${side ?? sign} ${v === null ? "lost" : ""}`, cx: at, cy: box.height - 40 + level * 9, r: radius }, panel);
    svg("title", {}, dot).textContent = `row ${r + 1}: residual ${fmt(minus(tree.g[r]))}`;
  }
}

function lollipop(panel, data, node, c, isShown, x, box, onPick) {
  const index = node.candidates.indexOf(c), dense = panel.classList.contains("dense");
  const classes = ["candidate", c.verdict, isShown ? "shown" : "", index === node.split ? "taken" : ""];
  const group = svg("g", { class: classes.join(" "), tabindex: 0, role: "button", "data-candidate": index }, panel);
  const shift = c.n_missing ? (c.default_left ? -5 : 5) : 0, at = x + shift, y = box.y(c.gain);
  svg("line", { x1: at, x2: at, y1: box.y(0), y2: y }, group);
  svg("rect", { class: "hit", x: at - 9, y: Math.min(y, box.y(0)) - 9, width: 18, height: Math.abs(y - box.y(0)) + 18 }, group);
  if (!c.n_missing) svg("circle", { cx: at, cy: y, r: isShown ? 6.5 : dense ? 2.8 : 5 }, group);
  else {
    const d = c.default_left ? -1 : 1, s = isShown ? 7 : dense ? 3.2 : 5.5;
    svg("path", { d: `M${at - d * s * 0.7} ${y - s} L${at + d * s} ${y} L${at - d * s * 0.7} ${y + s} Z` }, group);
  }
  if (isShown) {
    const text = svg("text", { x: Math.min(Math.max(at, 22), box.width - 22), y: c.gain < 0 ? y + 19 : y - 10, "text-anchor": "middle" }, group);
    text.textContent = fmt(c.gain);
  }
  const side = c.n_missing ? `, missing ${c.default_left ? "left" : "right"}` : "";
  const label = `${questionText(data, c)}${side}: gain ${fmt(c.gain)}`;
  svg("title", {}, group).textContent = label;
  group.setAttribute("aria-label", label);
  group.addEventListener("click", () => onPick(index));
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onPick(index);
    }
  });
}

function sideOfRow(data, c, r) {
  const v = data.X[r][c.feature];
  return (v === null ? c.default_left : v < c.threshold) ? "left" : "right";
}

// ---- predictions against labels ----

const ofTarget = (values, target) => values[target < values.length ? target : 0];

function labelOf(data, run, r, target) {
  const label = ofTarget(data.y[r], target);
  return run.params.n_outputs > 1 && data.y[r].length === 1 ? Number(label === target) : label;
}

function drawPredictions(element, { data, run }, target, before, after) {
  const n = Math.min(data.X.length, MAX_POINTS);
  const rows = [...Array(n).keys()];
  const width = Math.max(element.clientWidth - 8, 240), height = 236;
  const all = rows.flatMap((r) => [labelOf(data, run, r, target), ofTarget(before[r], target), ...(after ? [ofTarget(after[r], target)] : [])]);
  const low = Math.min(...all), high = Math.max(...all), room = (high - low || 1) * 0.08;
  const y = scale(low - room, high + room, height - 30, 14), x = scale(-0.5, n - 0.5, 44, width - 10);
  element.replaceChildren();
  const panel = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "predictions", role: "img" }, element);
  panel.setAttribute("aria-label", "Labels and predictions, row by row");
  for (const v of [low, (low + high) / 2, high]) {
    svg("line", { class: "grid", x1: 40, x2: width - 6, y1: y(v), y2: y(v) }, panel);
    svg("text", { class: "tick", x: 36, y: y(v) + 4, "text-anchor": "end" }, panel).textContent = fmt(v);
  }
  for (const r of rows) predictionOf(panel, r, x(r), y, labelOf(data, run, r, target), ofTarget(before[r], target), after && ofTarget(after[r], target), n, height);
  return data.X.length > n ? `the first ${n} of ${data.X.length} rows` : "";
}

function predictionOf(panel, r, x, y, label, before, after, n, height) {
  const now = after ?? before;
  const group = svg("g", { class: "row", "data-row": r }, panel);
  svg("line", { class: `residual ${label >= now ? "positive" : "negative"}`, x1: x, x2: x, y1: y(now), y2: y(label) }, group);
  if (after !== null) svg("circle", { class: "before", cx: x, cy: y(before), r: 5 }, group);
  const dot = svg("circle", { class: "prediction", cx: x, cy: y(now), r: 5.5 }, group);
  if (after !== null) dot.style.setProperty("--from", `${y(before) - y(now)}px`);
  svg("rect", { class: "label", x: x - 4.5, y: y(label) - 4.5, width: 9, height: 9, transform: `rotate(45 ${x} ${y(label)})` }, group);
  svg("title", {}, group).textContent = `row ${r + 1}: label ${fmt(label)}, prediction ${fmt(now)}`;
  if (n <= 24) svg("text", { class: "tick", x, y: height - 8, "text-anchor": "middle" }, panel).textContent = r + 1;
}

// ---- the metric by round ----

function drawMetric(element, run) {
  const name = Object.keys(run.metrics)[0];
  const values = [run.metrics[name], ...run.rounds.map((round) => round.metrics[name])];
  const width = Math.max(element.clientWidth - 8, 240), height = 236;
  const y = scale(Math.min(0, ...values), Math.max(0, ...values) * 1.1 || 1, height - 34, 20);
  const x = scale(0, values.length - 1, 50, width - 40);
  element.replaceChildren();
  const panel = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "metric", role: "img" }, element);
  panel.setAttribute("aria-label", `${name} by round`);
  svg("line", { class: "axis", x1: 40, x2: width - 10, y1: y(0), y2: y(0) }, panel);
  svg("path", { d: values.map((v, i) => `${i ? "L" : "M"}${x(i)} ${y(v)}`).join(" "), pathLength: 1 }, panel);
  values.forEach((v, i) => {
    svg("circle", { cx: x(i), cy: y(v), r: 5 }, panel);
    svg("text", { class: "value", x: x(i), y: y(v) - 11, "text-anchor": "middle" }, panel).textContent = fmt(v);
    svg("text", { class: "tick", x: x(i), y: height - 10, "text-anchor": "middle" }, panel).textContent = i ? `round ${i}` : "start";
  });
}
