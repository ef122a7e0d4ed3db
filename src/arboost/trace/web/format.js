// Numbers, names and formulas as HTML. Nothing here computes: a number is shown as it was recorded, with five digits.

const esc = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

function fmt(x) {
  if (x === null || x === undefined) return "?";
  const shown = Number(x.toPrecision(5));
  if (shown === 0) return "0";
  const size = Math.abs(shown);
  const text = size < 1e-4 || size >= 1e12 ? x.toExponential(2) : shown.toLocaleString("en-US", {
    useGrouping: false, maximumFractionDigits: 10,
  });
  return text.replaceAll("-", "−");
}

// A number that carries its recorded value, for who wants all digits.
const num = (x, extra = "") =>
  `<span class="n ${extra}" data-v="${x}" title="${x === null ? "missing" : x}">${fmt(x)}</span>`;

const squared = (x) => (x < 0 ? `(${num(x)})²` : `${num(x)}²`);
const frac = (top, bottom) => `<span class="frac"><span>${top}</span><span>${bottom}</span></span>`;
const equation = (name, ...parts) =>
  `<p class="eq"><span class="name">${name}</span>${parts.map((p) => `<span class="part"><span class="is">=</span>${p}</span>`).join("")}</p>`;
const minus = (x) => (x === 0 ? 0 : -x); // residuals are negative gradients; no minus zero

function valueName(data, feature, x) {
  if (x === null) return '<span class="lost" title="missing">?</span>';
  const names = data.features[feature].values;
  const key = Number.isInteger(x) ? `${x}.0` : String(x);
  return esc(names[key] ?? fmt(x));
}

// The columns of a table of rows: those that stand for the categories of one feature are one.
function columnsOf(data) {
  const found = new Map();
  data.features.forEach((f, i) => {
    const name = f.category.length ? f.category[0] : f.name;
    found.set(name, [...(found.get(name) ?? []), i]);
  });
  return [...found];
}

function cellOf(data, places, row) {
  const first = data.features[places[0]];
  if (!first.category.length || row[places[0]] === null) return valueName(data, places[0], row[places[0]]);
  const place = places.find((i) => row[i]);
  return place === undefined ? valueName(data, places[0], null) : esc(data.features[place].category[1]);
}

// Which question a candidate asks; beyond all values it only tells missing from present.
function questionText(data, c) {
  const name = data.features[c.feature].name;
  if (c.n_missing && c.default_left && c.n_left === c.n_missing) return `${name} is missing`;
  if (c.n_missing && !c.default_left && c.n_right === c.n_missing) return `${name} is present`;
  if (data.features[c.feature].category.length) return name.replace(" = ", " ≠ "); // 0/1: those below 0.5 are of other categories
  return `${name} < ${fmt(c.threshold)}`;
}

// The same in at most n characters: the name gives way, not the number.
function shortQuestion(data, c, n) {
  const text = questionText(data, c), name = data.features[c.feature].name;
  return text.length <= n ? text : clip(name, Math.max(n - (text.length - name.length), 3)) + text.slice(name.length);
}

// "residual" where -g is label less prediction; else its honest name.
const LOG_ODDS = ["binary:logistic", "reg:logistic"];

const isClasses = (run) => run.params.objective.startsWith("multi:");

function words(run) {
  const objective = run.params.objective;
  const plain = run.params.plain_residuals, isLogistic = LOG_ODDS.includes(objective) && plain;
  const isSoftmax = objective === "multi:softprob" && plain;
  return {
    residual: plain ? "residual" : "−gradient",
    residuals: plain ? "residuals" : "gradients, negated",
    h: run.params.unit_hessians ? "rows" : isLogistic ? "Σ p(1−p)" : isSoftmax ? "Σ 2p(1−p)" : "Σ h",
    hRow: isLogistic ? "p(1−p)" : isSoftmax ? "2p(1−p)" : "hessian",
    logOdds: LOG_ODDS.includes(objective),
    simple: run.params.reg_alpha === 0 && run.params.max_delta_step === 0,
  };
}

function similarity(run, name, g, h, score) {
  const w = words(run);
  const symbols = frac(`(Σ ${w.residuals})²`, `${w.h} + λ`);
  const numbers = frac(squared(minus(g)), `${num(h)} + ${num(run.params.reg_lambda)}`);
  if (w.simple) return equation(name, symbols, numbers, `<b>${num(score)}</b>`);
  return equation(name, `score(Σ = ${num(minus(g))}, ${w.h} = ${num(h)}; λ, α, max_delta_step)`, `<b>${num(score)}</b>`);
}

function leafOutput(run, node) {
  const w = words(run), p = run.params;
  const adds = `<b>${num(node.value)}</b>`;
  if (p.own_leaves) return equation("leaf adds", "η × the loss’s best value for its rows", adds);
  const numbers = w.simple
    ? [frac(`Σ ${w.residuals}`, `${w.h} + λ`), frac(num(minus(node.g)), `${num(node.h)} + ${num(p.reg_lambda)}`)]
    : [];
  return equation("output", ...numbers, `<b>${num(node.weight)}</b>`)
    + equation("leaf adds", "η × output", `${num(p.eta)} × ${num(node.weight)}`, adds);
}
