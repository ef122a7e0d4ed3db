"use strict";
// Small pieces that all charts share: elements, numbers, scales, the frame of a chart, the tooltip.
// Texts from the data only ever become text nodes, never HTML.

const charts = JSON.parse(document.getElementById("charts").textContent);
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}

const html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function show(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(2).replace("e+", "e");
  return Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 12 });
}

const percent = (value, digits = 1) => (100 * value).toFixed(digits) + "%";
const roundPercent = (value) => Number((100 * value).toPrecision(4)) + "%";
const short = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
const color = (i) => `var(--c${i % 8})`;
const finite = (values) => values.filter((v) => v !== null && Number.isFinite(v));

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (v !== null) { if (v < low) low = v; if (v > high) high = v; }
  return low > high ? [0, 1] : [low, high];
}

// Round steps between two ends, about `count` of them.
function ticksBetween(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

// A scale: number -> pixel, with `ticks` and `back`.
function makeScale(domain, range, options = {}) {
  const through = options.log ? Math.log10 : options.root ? Math.sqrt : (v) => v;
  const inverse = options.log ? (v) => 10 ** v : options.root ? (v) => v * v : (v) => v;
  let [low, high] = domain;
  if (options.log) { low = Math.max(low, 1e-12); high = Math.max(high, low * 1.01); }
  if (low === high) { low -= 0.5; high += 0.5; }
  const a = through(low), b = through(high);
  const scale = (v) => range[0] + ((through(options.log ? Math.max(v, 1e-12) : v) - a) / (b - a)) * (range[1] - range[0]);
  scale.domain = [low, high];
  scale.range = range;
  scale.back = (pixel) => inverse(a + ((pixel - range[0]) / (range[1] - range[0])) * (b - a));
  scale.ticks = (count) => {
    if (!options.log) {
      const found = options.root ? ticksBetween(a, b, count).map(inverse) : ticksBetween(low, high, count);
      return options.whole ? found.filter(Number.isInteger) : found;
    }
    const found = [];
    for (let e = Math.floor(a); e <= Math.ceil(b); e++) for (const m of b - a < 2 ? [1, 2, 5] : [1]) {
      const v = m * 10 ** e;
      if (v >= low * 0.999 && v <= high * 1.001) found.push(v);
    }
    return found.length ? found : [low, high];
  };
  return scale;
}

const widen = ([low, high], share = 0.04) => { const room = (high - low || 1) * share; return [low - room, high + room]; };

// Draws axes and grid; returns the scales and the group to draw in.
function makeFrame(width, height, x, y, margin = {}) {
  const room = { top: 10, right: 14, bottom: 40, left: 54, ...margin };
  const node = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img" });
  const yScale = makeScale(y.domain, [height - room.bottom, room.top], y);
  const yTicks = y.ticks || yScale.ticks(Math.max(3, Math.round((height - 50) / 48)));
  const words = yTicks.map((t) => (y.percent ? roundPercent(t) : show(t)));
  if (!margin.left) room.left = 30 + Math.max(...words.map((w) => w.length), 2) * 6.6;
  const xScale = makeScale(x.domain, [room.left, width - room.right], x);
  const base = svg("g");
  yTicks.forEach((t, i) => {
    const at = yScale(t);
    base.append(svg("line", { class: "gridline", x1: room.left, x2: width - room.right, y1: at, y2: at }));
    base.append(svg("text", { x: room.left - 8, y: at + 4, "text-anchor": "end" }, words[i]));
  });
  for (const t of x.ticks || (x.none ? [] : xScale.ticks(Math.max(2, Math.round((width - 80) / 84))))) {
    base.append(svg("text", { x: xScale(t), y: height - room.bottom + 17, "text-anchor": "middle" }, show(t)));
  }
  base.append(svg("line", { class: "axis", x1: room.left, x2: width - room.right, y1: height - room.bottom, y2: height - room.bottom }));
  if (x.label) base.append(svg("text", { class: "axis-label", x: (room.left + width - room.right) / 2, y: height - 4, "text-anchor": "middle" }, x.label));
  if (y.label) {
    const middle = (room.top + height - room.bottom) / 2;
    base.append(svg("text", { class: "axis-label", x: 11, y: middle, "text-anchor": "middle", transform: `rotate(-90 11 ${middle})` }, y.label));
  }
  const inner = svg("g");
  node.append(base, inner);
  return { node, inner, x: xScale, y: yScale, room, width, height };
}

// One tooltip for the page; rows are [name, value, colour] or plain texts.
const tip = document.getElementById("tip");
function showTip(event, title, rows = []) {
  tip.replaceChildren(html("b", {}, title));
  for (const row of rows) {
    if (typeof row === "string") tip.append(html("div", {}, row));
    else tip.append(html("div", {}, html("span", { style: row[2] ? { borderLeft: `3px solid ${row[2]}`, paddingLeft: "7px" } : {} }, row[0]), html("span", {}, row[1])));
  }
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 12 : event.clientX + 16;
  tip.style.left = Math.max(6, left) + "px";
  tip.style.top = Math.max(6, Math.min(event.clientY - box.height / 2, innerHeight - box.height - 6)) + "px";
}
const hideTip = () => { tip.hidden = true; };

// The point of an event in the units of a drawing.
function pointIn(node, event) {
  const box = node.getBoundingClientRect(), view = node.viewBox.baseVal;
  return [((event.clientX - box.left) / box.width) * view.width, ((event.clientY - box.top) / box.height) * view.height];
}

// Calls draw(width) now and whenever the width changes; what it returns becomes the content.
function fitted(draw, minimum = 260) {
  const holder = html("div", {});
  let last = 0;
  new ResizeObserver((entries) => {
    const width = Math.round(entries[0].contentRect.width);
    if (width && Math.abs(width - last) > 1) { last = width; holder.replaceChildren(draw(Math.max(minimum, width))); }
  }).observe(holder);
  return holder;
}

// Buttons of which one is pressed.
function makeChoices(names, chosen, onchoice) {
  const box = html("div", { class: "choices" });
  names.forEach((name, i) => {
    const press = () => {
      for (const [j, other] of [...box.children].entries()) other.setAttribute("aria-pressed", j === i);
      onchoice(i);
    };
    box.append(html("button", { type: "button", "aria-pressed": i === chosen, onclick: press }, short(name, 40)));
  });
  return box;
}

function makeSelect(name, names, chosen, onchoice) {
  const select = html("select", { "aria-label": name, onchange: () => onchoice(select.selectedIndex) });
  names.forEach((text, i) => select.append(html("option", { value: i }, short(text, 60))));
  select.selectedIndex = chosen;
  return select;
}

const makeLegend = (entries) => html("div", { class: "legend" }, entries.map(([name, paint, kind]) => html("span", {}, html("i", { class: kind || "", style: { color: paint } }), html("em", {}, short(name, 40)))));

// From low to high: blue, violet, red.
const SHADES = 14;
const shade = (share) => `color-mix(in oklab, var(--high) ${Math.round(share * 100)}%, var(--low))`;
