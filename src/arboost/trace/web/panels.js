// What is told beside the pictures: the story of a step, the table of rows, the table of candidates.

const MAX_TABLE = 80;
const MANY_ROWS = 15; // of so many rows those of the node come first

const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const list = (ids) => (ids.length < 2 ? ids.join("") : `${ids.slice(0, -1).join(", ")} and ${ids[ids.length - 1]}`);
const nodeName = (node) => (node.id === 0 ? "the root" : `node ${node.id}`);

// ---- the story of a step: {caption, html} ----

const STORIES = {
  start({ data, run }) {
    const how = run.params.given_base_score ? "It was given as base_score."
      : !run.params.starts_at_mean ? "It was estimated from the labels."
      : isClasses(run) ? "It is the share of each class among the rows." : `It is the mean of ${esc(data.target)}.`;
    const w = words(run), first = run.prediction[0];
    const each = first.map((p) => num(p, "big")).join(" ");
    const odds = w.logOdds ? equation("log odds", "ln " + frac("p", "1 − p"), `<b>${num(run.margin[0][0])}</b>`) : "";
    return { caption: "Every row starts at the same prediction", html: `<p class="lead">${each}</p><p>${how}</p>${odds}<p class="notes">${esc(data.notes)}</p>` };
  },

  residuals({ data, run, tree, step }) {
    const w = words(run), r = 0;
    const before = ofTarget(marginsBefore(run, step.round).prediction[r], tree.target);
    const output = run.params.n_outputs > 1 ? ` for ${data.outputs[tree.target]}` : "";
    const isPlain = w.residual === "residual";
    const p = w.logOdds || isClasses(run) ? "p" : "prediction";
    const label = isClasses(run) ? "label" : esc(data.target);
    const what = isClasses(run) ? " A label is 1 for the rows of the class and 0 for all others." : "";
    const row = isPlain
      ? equation("residual", `${label} − ${p}`, `${num(labelOf(data, run, r, tree.target))} − ${num(before)}`, `<b>${num(minus(tree.g[r]))}</b>`)
      : equation("−gradient", `<b>${num(minus(tree.g[r]))}</b>`);
    const h = run.params.unit_hessians
      ? "<p>Every hessian is 1 here, so a sum of hessians counts rows.</p>"
      : equation("hessian", ...(w.hRow === "hessian" ? [] : [w.hRow]), `<b>${num(tree.h[r])}</b>`);
    return { caption: `How wrong is each row${output}?`, html: `<p>The new tree is fitted to what is still missing.${what} For row 1:</p>${row}${h}` };
  },

  search(scene) {
    const { node, candidate, data } = scene;
    const what = node.candidates.length === 1 ? "One candidate split" : `${node.candidates.length} candidate splits`;
    const isBest = candidate && node.candidates.indexOf(candidate) === node.split;
    return {
      caption: `Where to split ${nodeName(node)}?`,
      html: nodeSimilarity(scene) + `<p>${what} of its ${plural(node.rows.length, "row")}. ${isBest ? "The largest gain" : "Shown"}:</p>` + gainOf(scene, candidate),
    };
  },

  split(scene) {
    const { node, data } = scene;
    const c = node.candidates[node.split];
    const side = c.n_missing ? `<p>The ${plural(c.n_missing, "row")} without a value go <b class="${c.default_left ? "left" : "right"}">${c.default_left ? "left" : "right"}</b>: that gains more. It becomes the node’s default direction.</p>` : "";
    return {
      caption: `Split: ${questionText(data, c)}`,
      html: `<p><span class="left">${plural(c.n_left, "row")} left</span>, <span class="right">${plural(c.n_right, "row")} right</span>, gain ${num(c.gain)}.</p>${side}${gainOf(scene, c)}`,
    };
  },

  leaf(scene) {
    const { node, data } = scene;
    const best = scene.candidate ? `<p>${scene.candidate.verdict === "best" ? "The best of them" : "Shown"}:</p>${gainOf(scene, scene.candidate)}` : "";
    return { caption: `${node.id === 0 ? "The root" : `Node ${node.id}`} stays a leaf`, html: `<p>${esc(sentence(data.reasons[node.reason]))}</p>${nodeSimilarity(scene)}${best}` };
  },

  limit({ step, run, tree }) {
    const depth = tree.nodes[step.nodes[0]].depth;
    return {
      caption: "As deep as allowed",
      html: `<p>Node${step.nodes.length === 1 ? "" : "s"} ${list(step.nodes)} ${step.nodes.length === 1 ? "is" : "are"} at depth ${depth}, and max_depth is ${num(run.params.max_depth)}: nothing below is searched.</p>`,
    };
  },

  prune(scene) {
    const { node, run, data } = scene;
    const c = node.candidates[node.split];
    return {
      caption: `Taken back: ${questionText(data, c)}`,
      html: `<p class="verdict bad">gain ${num(c.gain)} &lt; γ ${num(run.params.gamma)}</p><p>Below ${nodeName(node)} no split is left, and its own gains less than gamma: it becomes a leaf again. Trees are pruned from the bottom up.</p>${gainOf(scene, c)}`,
    };
  },

  keep(scene) {
    const { node, run, data } = scene;
    const c = node.candidates[node.split];
    const why = node.protected
      ? `<p class="verdict good">gain ${num(c.gain)} &lt; γ ${num(run.params.gamma)}, but a split below stays</p><p>A split that leads to one worth keeping is kept too.</p>`
      : `<p class="verdict good">gain ${num(c.gain)} ≥ γ ${num(run.params.gamma)}</p><p>The split is worth its price gamma.</p>`;
    return { caption: `Kept: ${questionText(data, c)}`, html: why + gainOf(scene, c) };
  },

  outputs({ tree, run }) {
    const leaves = tree.nodes.filter((n) => n.value !== null);
    const few = leaves.slice(0, 6);
    const told = few.map((n) => `<div class="leaf"><p class="of">node ${n.id}, ${plural(n.rows.length, "row")}</p>${leafOutput(run, n)}</div>`).join("");
    const more = leaves.length > few.length ? `<p>… and ${leaves.length - few.length} more: click a leaf.</p>` : "";
    return { caption: "What each leaf answers", html: told + more };
  },

  update({ run, data, tree, step }) {
    const w = words(run), before = marginsBefore(run, step.round), after = run.rounds[step.round], t = tree.target;
    const what = w.logOdds ? "log odds" : run.params.objective === "reg:squarederror" ? "prediction" : "margin";
    const leaves = tree.nodes.filter((n) => n.value !== null && n.rows.length).slice(0, 4);
    const told = leaves.map((leaf) => {
      const r = leaf.rows[0];
      const link = w.logOdds ? equation("new p", frac("1", "1 + e<sup>−log odds</sup>"), `<b>${num(after.prediction[r][0])}</b>`) : "";
      return `<div class="leaf"><p class="of">row ${r + 1}, in node ${leaf.id}</p>${equation(`new ${what}`, `${num(before.margin[r][t])} + ${signed(leaf.value)}`, `<b>${num(after.margin[r][t])}</b>`)}${link}</div>`;
    }).join("");
    const metrics = Object.entries(after.metrics).map(([name, v]) => `${esc(name)} ${num(v)}`).join(", ");
    return {
      caption: "A small step towards the labels",
      html: `<p>New ${what} = old ${what} + what the row’s leaf adds. On all rows now: ${metrics}.</p>${told}`,
    };
  },

  end({ run }) {
    const names = Object.keys(run.metrics);
    const row = (what, m) => `<tr><th>${what}</th>${names.map((n) => `<td>${num(m[n])}</td>`).join("")}</tr>`;
    const rows = run.rounds.map((round) => row(`after round ${round.index + 1}`, round.metrics)).join("");
    return {
      caption: `${plural(run.rounds.length, "round")} done`,
      html: `<table class="metrics"><thead><tr><th></th>${names.map((n) => `<th>${esc(n)}</th>`).join("")}</tr></thead><tbody>${row("start", run.metrics)}${rows}</tbody></table><p>The model is the start plus all leaves. Move λ, γ or η to see another recorded run.</p>`,
    };
  },

  picked(scene) {
    const { node, data, run } = scene;
    const value = node.value === null ? "" : leafOutput(run, node);
    const gain = scene.candidate ? gainOf(scene, scene.candidate) : "";
    return { caption: node.id === 0 ? "The root" : `Node ${node.id}`, html: `<p>${esc(sentence(data.reasons[node.reason]))}</p>${nodeSimilarity(scene)}${gain}${value}` };
  },
};

const signed = (x) => (x < 0 ? `(${num(x)})` : num(x));
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

function nodeSimilarity({ run, node }) {
  return similarity(run, "similarity", node.g, node.h, node.score);
}

function gainOf({ data, run, node }, c) {
  if (!c) return "";
  const side = c.n_missing ? ` <small>missing ${c.default_left ? "left" : "right"}</small>` : "";
  const light = c.verdict === "light" ? `<p class="verdict bad">${esc(sentence(data.verdicts.light))}</p>` : "";
  return `<div class="gain"><p class="question">${esc(questionText(data, c))}${side}</p>`
    + similarity(run, '<span class="left">left</span>', c.g_left, c.h_left, c.score_left)
    + similarity(run, '<span class="right">right</span>', c.g_right, c.h_right, c.score_right)
    + equation("gain", `<span class="left">${num(c.score_left)}</span> + <span class="right">${num(c.score_right)}</span> − ${num(node.score)}`, `<b class="result">${num(c.gain)}</b>`)
    + light + "</div>";
}

const marginsBefore = (run, round) => (round ? run.rounds[round - 1] : run);

// ---- rows ----

function rowsTable(scene) {
  const { data, run, tree, step, node, candidate } = scene;
  const w = words(run), before = marginsBefore(run, step.round), target = tree ? tree.target : 0;
  const isAfter = step.kind === "update" || step.kind === "end";
  const columns = [["row", (r) => r + 1, "id"]];
  const features = columnsOf(data).map(([name, places]) => [esc(name), (r) => cellOf(data, places, data.X[r]), candidate && places.includes(candidate.feature) ? "asked" : ""]);
  const isWide = features.length > 3; // then they come last, so that residuals are in sight
  if (data.group) columns.push(["group", (r) => data.group[r], "id"]);
  if (!isWide) columns.push(...features);
  columns.push([esc(data.target), (r) => num(ofTarget(data.y[r], target)), "label"]);
  if (w.logOdds) columns.push(["log odds", (r) => num(before.margin[r][target]), "margin"]);
  columns.push([w.logOdds ? "p" : "prediction", (r) => num(ofTarget(before.prediction[r], target)), "prediction"]);
  if (tree && !isAfter) {
    columns.push([w.residual, (r) => num(minus(tree.g[r]), tree.g[r] > 0 ? "negative" : tree.g[r] < 0 ? "positive" : ""), "residual"]);
    columns.push([w.hRow, (r) => num(tree.h[r]), "hessian"]);
  }
  if (tree && (isAfter || step.kind === "outputs")) columns.push(["leaf adds", (r) => num(tree.nodes[tree.leaf_of_row[r]].value), "adds"]);
  if (isAfter) columns.push(...afterColumns(scene, w, target));
  if (isWide) columns.push(...features);
  return tableOfRows(scene, columns, node, candidate);
}

function afterColumns({ run, step }, w, target) {
  const after = run.rounds[step.round], next = run.rounds[step.round + 1];
  const columns = [];
  if (w.logOdds) columns.push(["new log odds", (r) => num(after.margin[r][target]), "new"]);
  columns.push([w.logOdds ? "new p" : "new prediction", (r) => num(ofTarget(after.prediction[r], target)), "new"]);
  const tree = next && next.trees.find((t) => t.target === target);
  if (tree) columns.push([`new ${w.residual}`, (r) => num(minus(tree.g[r])), "residual"]);
  return columns;
}

function tableOfRows({ data, tree }, columns, node, candidate) {
  const all = [...data.X.keys()];
  const inside = node ? new Set(node.rows) : null;
  const ordered = all.length > MANY_ROWS && inside ? [...node.rows, ...all.filter((r) => !inside.has(r))] : all;
  const head = columns.map(([name, , kind]) => `<th class="${kind}">${name}</th>`).join("");
  const body = ordered.slice(0, MAX_TABLE).map((r) => {
    const side = candidate && inside.has(r) ? sideOfRow(data, candidate, r) : "";
    const state = !inside ? "" : inside.has(r) ? `inside ${side}` : "outside";
    return `<tr class="${state}" data-row="${r}">${columns.map(([, cell, kind]) => `<td class="${kind}">${cell(r)}</td>`).join("")}</tr>`;
  }).join("");
  const more = ordered.length > MAX_TABLE ? `<tfoot><tr><td colspan="${columns.length}">… ${ordered.length - MAX_TABLE} more rows</td></tr></tfoot>` : "";
  return `<thead><tr>${head}</tr></thead><tbody>${body}</tbody>${more}`;
}

// ---- candidates ----

function candidatesTable({ data, node, candidate }) {
  if (!node || !node.candidates.length) return "";
  const order = [...node.candidates.keys()];
  const byGain = [...order].sort((a, b) => node.candidates[b].gain - node.candidates[a].gain);
  const kept = new Set(byGain.slice(0, MAX_TABLE));
  const hasMissing = node.candidates.some((c) => c.n_missing);
  const head = `<tr><th>split</th>${hasMissing ? "<th>missing</th>" : ""}<th class="left">left</th><th class="left">similarity</th><th class="right">right</th><th class="right">similarity</th><th>gain</th><th></th></tr>`;
  const body = order.filter((k) => kept.has(k)).map((k) => candidateRow(data, node, k, candidate, hasMissing)).join("");
  const more = order.length > MAX_TABLE ? `<tfoot><tr><td colspan="8">the ${MAX_TABLE} best of ${order.length}; the chart has all</td></tr></tfoot>` : "";
  return `<thead>${head}</thead><tbody>${body}</tbody>${more}`;
}

function candidateRow(data, node, k, candidate, hasMissing) {
  const c = node.candidates[k];
  const state = `${c.verdict} ${c === candidate ? "shown" : ""} ${k === node.split ? "taken" : ""}`;
  const side = hasMissing ? `<td>${c.n_missing ? (c.default_left ? "← left" : "right →") : "–"}</td>` : "";
  return `<tr class="${state}" data-candidate="${k}" tabindex="0" role="button" aria-pressed="${c === candidate}"><td class="question">${esc(questionText(data, c))}</td>${side}`
    + `<td>${plural(c.n_left, "row")}</td><td>${num(c.score_left)}</td><td>${plural(c.n_right, "row")}</td><td>${num(c.score_right)}</td>`
    + `<td class="gain">${num(c.gain)}</td><td class="why">${k === node.split ? (node.reason === "split" ? "taken" : "taken, later pruned") : esc(data.verdicts[c.verdict])}</td></tr>`;
}
