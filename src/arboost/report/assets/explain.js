// What the model looks at: importance, SHAP values of many rows, of one feature, of one row.

function viewImportance(holder) {
  const kinds = Object.values(charts.importance).filter((kind) => kind.names.length);
  const place = html("div", {});
  const draw = (kind) => fitted((width) => {
    const n = kind.names.length, step = 24, left = Math.min(width * 0.38, 24 + Math.max(...kind.names.map((t) => Math.min(t.length, 30))) * 7);
    const x = makeScale([0, kind.values[0]], [left, width - 76]);
    const node = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${n * step + 6}`, role: "img", "aria-label": kind.title });
    kind.names.forEach((name, i) => {
      const y = i * step;
      node.append(svg("text", { x: left - 10, y: y + 16, "text-anchor": "end", class: "strong" }, short(name, Math.max(6, Math.floor(left / 7.2)))));
      node.append(svg("rect", {
        x: left, y: y + 4, width: Math.max(1, x(kind.values[i]) - left), height: step - 8, rx: 4, fill: "var(--c0)", opacity: 0.85,
        onmousemove: (event) => showTip(event, name, [[kind.title, show(kind.values[i], 8)]]), onmouseleave: hideTip,
      }));
      node.append(svg("text", { x: x(kind.values[i]) + 7, y: y + 16 }, show(kind.values[i])));
    });
    return node;
  });
  const choose = (i) => place.replaceChildren(draw(kinds[i]));
  holder.append(makeChoices(kinds.map((kind) => kind.title), 0, choose), place);
  choose(0);
}

// Ranks in 0..1 of the values that are not missing: colours spread evenly whatever the distribution.
function ranks(values) {
  const order = values.map((v, i) => i).filter((i) => values[i] !== null).sort((a, b) => values[a] - values[b]);
  const found = values.map(() => null);
  for (let i = 0; i < order.length;) {
    let j = i;
    while (j + 1 < order.length && values[order[j + 1]] === values[order[i]]) j++;
    for (let k = i; k <= j; k++) found[order[k]] = order.length > 1 ? (i + j) / 2 / (order.length - 1) : 0.5;
    i = j + 1;
  }
  return found;
}

const valueWords = (feature, value) => (value === null ? "missing" : feature.categories ? feature.categories[value] ?? show(value) : show(value, 5));

function drawShades(frame, places, size, opacity) {
  const paths = new Map();
  for (const [x, y, share] of places) {
    const key = share === null ? -1 : Math.round(share * SHADES);
    paths.set(key, (paths.get(key) || "") + `M${x.toFixed(1)},${y.toFixed(1)}h0`);
  }
  for (const [key, d] of paths) frame.inner.append(svg("path", { class: "dots", d, stroke: key < 0 ? "var(--faint)" : shade(key / SHADES), "stroke-width": size, opacity }));
}

const shadeLegend = (low, high, name) => html("div", { class: "legend" }, html("span", {}, html("em", {}, low),
  html("i", { style: { width: "90px", height: "8px", background: "linear-gradient(90deg in oklab, var(--low), var(--high))" } }), html("em", {}, high)),
  html("span", {}, html("em", {}, name)));

function drawBeeswarm(shap, output, onchoice) {
  const n = shap.features.length, step = 44;
  return fitted((width) => {
    const left = Math.min(width * 0.34, 24 + Math.max(...shap.features.map((f) => Math.min(f.name.length, 28))) * 7);
    const domain = widen(extent(output.shap.flat()), 0.03);
    const height = n * step + 46;
    const frame = makeFrame(width, height, { domain, label: width > 520 ? "SHAP value (what the feature adds to the margin)" : "SHAP value" }, { domain: [0, n], ticks: [] }, { left, bottom: 42, top: 4 });
    const zero = frame.x(0);
    frame.inner.append(svg("line", { class: "axis", x1: zero, x2: zero, y1: 4, y2: height - 42 }));
    const places = [];
    shap.features.forEach((feature, f) => {
      const middle = frame.room.top + (f + 0.5) * ((height - 46) / n), shares = ranks(feature.values);
      frame.inner.append(svg("line", { class: "gridline", x1: left, x2: width - 14, y1: middle, y2: middle }));
      const label = svg("text", { x: left - 12, y: middle + 4, "text-anchor": "end", class: "strong", style: { cursor: "pointer" }, onclick: () => onchoice(f) }, short(feature.name, Math.max(6, Math.floor(left / 7.2))));
      frame.node.append(label);
      // dots that would overlap move up and down in turn
      const columns = new Map();
      const order = output.shap[f].map((_, i) => i).sort((a, b) => (shares[a] ?? -1) - (shares[b] ?? -1));
      for (const i of order) {
        const x = frame.x(output.shap[f][i]), slot = Math.round(x / 3);
        const k = columns.get(slot) || 0;
        columns.set(slot, k + 1);
        places.push([x, k, shares[i], f, i, middle, slot]);
      }
      const most = Math.max(...columns.values());
      const apart = Math.min(3.1, (step - 8) / Math.max(1, most));
      for (const place of places) if (place[3] === f) place[1] = middle + (place[1] % 2 ? 1 : -1) * Math.ceil(place[1] / 2) * apart;
    });
    drawShades(frame, places, 4.4, 0.8);
    hoverPlaces(frame, places.map(([x, y, , f, i]) => [x, y, f, i]), (event, f, i) => {
      const feature = shap.features[f];
      showTip(event, feature.name, [["value", valueWords(feature, feature.values[i])], ["SHAP value", show(output.shap[f][i])], ["row", show(shap.rows[i])]]);
    });
    frame.node.setAttribute("aria-label", "SHAP values of the strongest features");
    return frame.node;
  });
}

function drawDependence(shap, output, f, partner) {
  const feature = shap.features[f], other = partner === null ? null : shap.features[partner];
  const known = finite(feature.values), categories = feature.categories;
  const used = categories ? [...new Set(known)].sort((a, b) => a - b) : null;
  const placeOf = used ? new Map(used.map((code, i) => [code, i])) : null;
  const hasMissing = known.length < feature.values.length;
  const shares = other ? ranks(other.values) : feature.values.map(() => null);
  const kinds = other && other.categories ? [...new Set(finite(other.values))].sort((a, b) => a - b) : [];
  const byKind = kinds.length > 0 && kinds.length <= 8;
  const draw = (width) => {
    let domain = used ? [-0.6, used.length - 0.4] : widen(known.length ? extent(known) : [0, 1]);
    const strip = hasMissing ? (domain[1] - domain[0]) * 0.09 : 0;
    const x = { label: feature.name, domain: [domain[0] - strip, domain[1]] };
    if (used) x.ticks = [];
    else x.ticks = ticksBetween(domain[0], domain[1], Math.max(2, Math.round((width - 80) / 90)));
    const frame = makeFrame(width, 300, x, { label: "SHAP value", domain: widen(extent(output.shap[f])) });
    if (used) {
      const slot = (frame.x.range[1] - frame.x.range[0]) / (used.length + 0.2), every = Math.ceil(24 / slot);
      used.forEach((code, i) => { if (i % every === 0) frame.inner.append(svg("text", { x: frame.x(i), y: 300 - 40 + 17, "text-anchor": "middle" }, short(categories[code] ?? String(code), Math.max(3, Math.floor((slot * every) / 7))))); });
    }
    if (hasMissing) frame.inner.append(svg("text", { x: frame.x(domain[0] - strip / 2), y: 300 - 40 + 17, "text-anchor": "middle" }, "missing"));
    const zero = frame.y(0);
    if (zero > 10 && zero < 260) frame.inner.append(svg("line", { class: "ref", x1: frame.x.range[0], x2: frame.x.range[1], y1: zero, y2: zero }));
    const places = feature.values.map((value, i) => {
      const spread = ((i * 0.618034) % 1) - 0.5;
      const at = value === null ? domain[0] - strip / 2 + spread * strip * 0.5 : used ? placeOf.get(value) + spread * 0.55 : value;
      return [frame.x(at), frame.y(output.shap[f][i]), shares[i], i];
    });
    const dot = ([px, py]) => `M${px.toFixed(1)},${py.toFixed(1)}h0`;
    if (byKind) kinds.forEach((code, k) => frame.inner.append(svg("path", { class: "dots", d: places.filter((p) => other.values[p[3]] === code).map(dot).join(""), stroke: color(k), "stroke-width": 5, opacity: 0.7 })));
    else if (other) drawShades(frame, places, 5, 0.75);
    else frame.inner.append(svg("path", { class: "dots", d: places.map(dot).join(""), stroke: "var(--c0)", "stroke-width": 5, opacity: 0.6 }));
    hoverPlaces(frame, places.map(([px, py, , i]) => [px, py, i]), (event, i) => {
      const rows = [[feature.name, valueWords(feature, feature.values[i])], ["SHAP value", show(output.shap[f][i])]];
      if (other) rows.push([other.name, valueWords(other, other.values[i])]);
      showTip(event, `row ${show(shap.rows[i])}`, rows);
    });
    frame.node.setAttribute("aria-label", `Dependence of the prediction on ${feature.name}`);
    return frame.node;
  };
  const words = byKind ? kinds.map((code, k) => [other.categories[code] ?? String(code), color(k), "box"]) : [];
  const legend = byKind ? makeLegend([[`${other.name}:`, "transparent", "box"], ...words]) : other ? shadeLegend("low", "high", short(other.name, 40)) : makeLegend([]);
  return figure({ title: short(feature.name, 60) }, fitted(draw), legend);
}

function viewShap(holder) {
  const shap = charts.shap, swarm = html("div", {}), dependence = html("div", { class: "grid", style: { marginTop: "6px" } });
  let output = shap.outputs[0];
  const names = shap.features.map((f) => f.name);
  const two = [0, Math.min(1, names.length - 1)];
  const drawPair = () => dependence.replaceChildren(...[...new Set(two)].map((f) => drawDependence(shap, output, f, output.partner[f])));
  const choose = (f) => { two[1] = two[0] === f ? two[1] : two[0]; two[0] = f; first.selectedIndex = two[0]; second.selectedIndex = two[1]; drawPair(); };
  const first = makeSelect("feature of the first chart", names, two[0], (f) => { two[0] = f; drawPair(); });
  const second = makeSelect("feature of the second chart", names, two[1], (f) => { two[1] = f; drawPair(); });
  const drawAll = () => { swarm.replaceChildren(drawBeeswarm(shap, output, choose)); drawPair(); };
  if (shap.outputs.length > 1) holder.append(makeChoices(shap.outputs.map((o) => o.name), 0, (k) => { output = shap.outputs[k]; drawAll(); }));
  holder.append(shadeLegend("low value", "high value", "grey: missing; categories in their order"), swarm,
    html("h3", {}, "Dependence"), html("div", { class: "choices" }, html("label", {}, "SHAP value against the value of", first), html("label", {}, "and of", second)), dependence);
  dependence.before(html("p", { class: "note", style: { margin: "-6px 0 8px" } }, "Coloured by the feature that explains most of what is left."));
  drawAll();
}

// The row that is looked at; the trees follow it.
const chosenRow = { index: 0, listeners: [] };
function chooseRow(index) {
  chosenRow.index = index;
  for (const listener of chosenRow.listeners) listener(index);
}

const rowName = (entry) => `row ${show(entry.row)}${entry.label ? ` · actual ${entry.label}` : ""} · predicted ${entry.prediction}${entry.tag ? ` · ${entry.tag}` : ""}`;

function drawSteps(part) {
  const steps = [...part.steps.map(([name, value, phi]) => ({ name: `${short(name, 30)} = ${short(value, 22)}`, full: `${name} = ${value}`, phi }))];
  if (part.n_rest > 0) steps.push({ name: `${part.n_rest} other features`, full: `${part.n_rest} other features`, phi: part.rest });
  let at = part.bias;
  for (const step of steps) { step.from = at; at += step.phi; step.to = at; }
  return fitted((width) => {
    const line = 30, left = Math.min(width * 0.42, 270), height = (steps.length + 2) * line + 44;
    const domain = widen(extent([part.bias, part.margin, ...steps.flatMap((s) => [s.from, s.to])]), 0.12);
    const frame = makeFrame(width, height, { domain, label: "margin (raw score)" }, { domain: [0, 1], ticks: [] }, { left, top: 2 });
    const label = (y, text, strong) => frame.inner.append(svg("text", { x: left - 12, y: y + 19, "text-anchor": "end", class: strong ? "strong" : "", style: { fontWeight: strong ? 620 : 400 } }, short(text, Math.floor(left / 6.6))));
    const dot = (y, value, name) => {
      label(y, name, true);
      frame.inner.append(svg("circle", { cx: frame.x(value), cy: y + 15, r: 5, fill: "var(--ink)" }));
      frame.inner.append(svg("text", { x: frame.x(value) + 11, y: y + 19, class: "strong", style: { fontWeight: 620 } }, show(value, 5)));
    };
    dot(0, part.bias, "mean prediction");
    steps.forEach((step, i) => {
      const y = (i + 1) * line, a = frame.x(step.from), b = frame.x(step.to), up = step.phi > 0;
      label(y, step.name);
      frame.inner.append(svg("line", { class: "cross", x1: a, x2: a, y1: y - line + 22, y2: y + 24 }));
      frame.inner.append(svg("rect", {
        x: Math.min(a, b), y: y + 6, width: Math.max(1.5, Math.abs(b - a)), height: 18, rx: 4, fill: up ? "var(--up)" : "var(--down)", opacity: 0.85,
        onmousemove: (event) => showTip(event, step.full, [["adds", (up ? "+" : "") + show(step.phi, 5)]]), onmouseleave: hideTip,
      }));
      const outside = up ? Math.max(a, b) + 6 : Math.min(a, b) - 6;
      frame.inner.append(svg("text", { x: outside, y: y + 19, "text-anchor": up ? "start" : "end" }, (up ? "+" : "−") + show(Math.abs(step.phi), 3)));
    });
    dot((steps.length + 1) * line, part.margin, "this row");
    frame.node.setAttribute("aria-label", "Contributions of the features to one prediction");
    return frame.node;
  });
}

function viewRows(holder) {
  const rows = charts.rows, outputs = charts.shap.outputs, place = html("div", {});
  let k = 0;
  const draw = () => place.replaceChildren(drawSteps(rows[chosenRow.index].outputs[k]));
  const select = makeSelect("row", rows.map(rowName), 0, chooseRow);
  const step = (by) => chooseRow((chosenRow.index + by + rows.length) % rows.length);
  chosenRow.listeners.push((index) => { select.selectedIndex = index; draw(); });
  holder.append(html("div", { class: "choices" }, html("button", { type: "button", onclick: () => step(-1), "aria-label": "previous row" }, "←"), select,
    html("button", { type: "button", onclick: () => step(1), "aria-label": "next row" }, "→")));
  if (outputs.length > 1) holder.append(makeChoices(outputs.map((o) => o.name), 0, (i) => { k = i; draw(); }));
  holder.append(place);
  draw();
}
