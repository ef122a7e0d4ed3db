// Charts of a fixed kind, each drawn from one entry of the JSON block.

const CHART_HEIGHT = 280;

function figure(chart, content, legend) {
  const node = html("figure", { class: chart.wide ? "wide" : null }, html("figcaption", {}, chart.title), legend || null, content);
  if (chart.note) node.append(html("p", { class: "note" }, chart.note));
  return node;
}

const refLegend = (chart) => (chart.refs || []).filter((r) => r.name).map((r) => [r.name, "var(--faint)", "dash"]);

function pathOf(frame, xs, ys, step) {
  let text = "", pen = "M";
  xs.forEach((x, i) => {
    if (x === null || ys[i] === null) { pen = "M"; return; }
    const px = frame.x(x), py = frame.y(ys[i]);
    text += step && pen === "L" ? `H${px.toFixed(1)}V${py.toFixed(1)}` : `${pen}${px.toFixed(1)},${py.toFixed(1)}`;
    pen = "L";
  });
  return text;
}

// Lines to compare with end where the chart does: an svg in an svg shows nothing outside its own box.
function drawRefs(frame, chart) {
  const x = frame.x.range[0] - 1, y = frame.room.top - 1, width = frame.x.range[1] + 1 - x, height = CHART_HEIGHT - frame.room.bottom + 1 - y;
  const box = svg("svg", { class: "refs", x, y, width, height, viewBox: `${x} ${y} ${width} ${height}` });
  for (const ref of chart.refs || []) box.append(svg("path", { class: "ref", d: pathOf(frame, ref.x, ref.y) }));
  frame.inner.append(box);
}

function drawLine(chart) {
  const all = chart.series;
  const xDomain = chart.x.domain || extent(all.flatMap((s) => s.x));
  const yDomain = chart.y.domain || widen(extent(all.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || [])]).concat((chart.refs || []).flatMap((r) => r.y))));
  const draw = (width) => {
    const frame = makeFrame(width, CHART_HEIGHT, { ...chart.x, domain: xDomain }, { ...chart.y, domain: yDomain });
    drawRefs(frame, chart);
    if (chart.mark !== null && chart.mark !== undefined) {
      const at = frame.x(chart.mark);
      frame.inner.append(svg("line", { class: "cross", x1: at, x2: at, y1: frame.room.top, y2: CHART_HEIGHT - frame.room.bottom }));
      frame.inner.append(svg("text", { x: at + (at > width / 2 ? -6 : 6), y: frame.room.top + 10, "text-anchor": at > width / 2 ? "end" : "start" }, `best round ${chart.mark}`));
    }
    all.forEach((s, i) => {
      if (s.low) {
        const back = s.x.map((_, j) => s.x.length - 1 - j);
        const outline = pathOf(frame, s.x, s.high) + pathOf(frame, back.map((j) => s.x[j]), back.map((j) => s.low[j])).replace("M", "L") + "Z";
        frame.inner.append(svg("path", { class: "band", d: outline, fill: color(i) }));
      }
      if (!s.only_dots) frame.inner.append(svg("path", { class: "line", d: pathOf(frame, s.x, s.y, s.step), stroke: color(i) }));
      if (s.dots || s.only_dots || s.x.length === 1) {
        const d = s.x.map((x, j) => (s.y[j] === null ? "" : `M${frame.x(x).toFixed(1)},${frame.y(s.y[j]).toFixed(1)}h0`)).join("");
        frame.inner.append(svg("path", { class: "dots", d, stroke: color(i), "stroke-width": s.only_dots ? 4 : 7, opacity: s.only_dots ? 0.6 : 1 }));
      }
    });
    const cross = svg("line", { class: "cross", y1: frame.room.top, y2: CHART_HEIGHT - frame.room.bottom, visibility: "hidden" });
    const rings = all.map((s, i) => svg("circle", { r: 4, fill: color(i), stroke: "var(--card)", "stroke-width": 2, visibility: "hidden" }));
    frame.inner.append(cross, ...rings);
    frame.node.addEventListener("mousemove", (event) => {
      const [px] = pointIn(frame.node, event);
      const wanted = frame.x.back(px), rows = [];
      all.forEach((s, i) => {
        const j = nearest(s.x, wanted);
        rings[i].setAttribute("visibility", s.y[j] === null ? "hidden" : "visible");
        if (s.y[j] === null) return;
        rings[i].setAttribute("cx", frame.x(s.x[j])); rings[i].setAttribute("cy", frame.y(s.y[j]));
        rows.push([all.length > 1 || s.name !== "model" ? s.name : chart.y.label, show(s.y[j], 6), color(i)]);
        if (!i) { cross.setAttribute("x1", frame.x(s.x[j])); cross.setAttribute("x2", frame.x(s.x[j])); cross.setAttribute("visibility", "visible"); }
      });
      showTip(event, `${chart.x.label} ${show(all[0].x[nearest(all[0].x, wanted)])}`, rows);
    });
    frame.node.addEventListener("mouseleave", () => { hideTip(); [cross, ...rings].forEach((n) => n.setAttribute("visibility", "hidden")); });
    frame.node.setAttribute("aria-label", chart.title);
    return frame.node;
  };
  const entries = all.length > 1 || all[0].name !== "model" ? all.map((s, i) => [s.name, color(i)]) : [];
  return figure(chart, fitted(draw), makeLegend([...entries, ...refLegend(chart)]));
}

function nearest(xs, wanted) {
  let best = 0, distance = Infinity;
  for (let i = 0; i < xs.length; i++) { const d = Math.abs(xs[i] - wanted); if (d < distance) { distance = d; best = i; } }
  return best;
}

function drawPoints(chart) {
  const all = chart.series, many = all.reduce((n, s) => n + s.x.length, 0);
  const positive = (values, log) => (log ? values.filter((v) => v > 0) : values);
  const fit = (values, log) => (log ? extent(positive(values, true)) : widen(extent(values)));
  const xDomain = fit(all.flatMap((s) => s.x), chart.x.log), yDomain = fit(all.flatMap((s) => s.y), chart.y.log);
  const draw = (width) => {
    const frame = makeFrame(width, CHART_HEIGHT, { ...chart.x, domain: xDomain }, { ...chart.y, domain: yDomain });
    const places = [];
    all.forEach((s, i) => {
      // one path has one opacity: dots add up where those of several paths overlap
      const layers = Array(8).fill("");
      s.x.forEach((x, j) => {
        if (x === null || s.y[j] === null || (chart.x.log && x <= 0) || (chart.y.log && s.y[j] <= 0)) return;
        const px = frame.x(x), py = frame.y(s.y[j]);
        layers[j % layers.length] += `M${px.toFixed(1)},${py.toFixed(1)}h0`;
        places.push([px, py, i, j]);
      });
      for (const d of layers) frame.inner.append(svg("path", { class: "dots", d, stroke: color(i), "stroke-width": 4.6, opacity: many > 600 ? 0.38 : 0.6 }));
    });
    drawRefs(frame, chart);
    hoverPlaces(frame, places, (event, i, j) => {
      const s = all[i];
      showTip(event, chart.ids ? `row ${show(chart.ids[j])}` : s.name, [[chart.x.label, show(s.x[j])], [chart.y.label, show(s.y[j])]]);
    });
    frame.node.setAttribute("aria-label", chart.title);
    return frame.node;
  };
  const entries = all.length > 1 ? all.map((s, i) => [s.name, color(i), "box"]) : [];
  return figure(chart, fitted(draw), makeLegend([...entries, ...refLegend(chart)]));
}

// A ring around the nearest of some places [x, y, ...more]; `tell` is called with the rest.
function hoverPlaces(frame, places, tell) {
  const ring = svg("circle", { class: "focus", r: 5, visibility: "hidden" });
  frame.inner.append(ring);
  frame.node.addEventListener("mousemove", (event) => {
    const [px, py] = pointIn(frame.node, event);
    let best = null, distance = 18 * 18;
    for (const place of places) { const d = (place[0] - px) ** 2 + (place[1] - py) ** 2; if (d < distance) { distance = d; best = place; } }
    ring.setAttribute("visibility", best ? "visible" : "hidden");
    if (!best) return hideTip();
    ring.setAttribute("cx", best[0]); ring.setAttribute("cy", best[1]);
    tell(event, ...best.slice(2));
  });
  frame.node.addEventListener("mouseleave", () => { hideTip(); ring.setAttribute("visibility", "hidden"); });
}

function drawHistogram(chart) {
  const tallest = Math.max(...chart.series.flatMap((s) => finite(s.y)), 1e-12);
  const draw = (width) => {
    const frame = makeFrame(width, CHART_HEIGHT, { ...chart.x, domain: [chart.edges[0], chart.edges.at(-1)] }, { ...chart.y, domain: [0, tallest * 1.05] });
    const many = chart.series.length > 1;
    chart.series.forEach((s, i) => {
      let outline = "";
      s.y.forEach((v, j) => {
        const x0 = frame.x(chart.edges[j]), x1 = frame.x(chart.edges[j + 1]), y = frame.y(v || 0);
        if (!many) {
          frame.inner.append(svg("rect", { x: x0 + 0.5, y, width: Math.max(0.8, x1 - x0 - 1), height: Math.max(0, frame.y(0) - y), fill: color(i), opacity: 0.75, rx: 1.5 }));
        }
        outline += `${j ? "L" : `M${x0.toFixed(1)},${frame.y(0)}L`}${x0.toFixed(1)},${y.toFixed(1)}H${x1.toFixed(1)}`;
      });
      if (many) {
        frame.inner.append(svg("path", { class: "band", d: outline + `V${frame.y(0)}Z`, fill: color(i) }));
        frame.inner.append(svg("path", { class: "line", d: outline, stroke: color(i), "stroke-width": 1.6 }));
      }
    });
    frame.node.addEventListener("mousemove", (event) => {
      const x = frame.x.back(pointIn(frame.node, event)[0]);
      const j = chart.edges.findIndex((edge, i) => i + 1 < chart.edges.length && x >= edge && x < chart.edges[i + 1]);
      if (j < 0) return hideTip();
      const value = (v) => (chart.y.percent ? percent(v) : show(v));
      showTip(event, `${show(chart.edges[j])} to ${show(chart.edges[j + 1])}`, chart.series.map((s, i) => [s.name, value(s.y[j]), color(i)]));
    });
    frame.node.addEventListener("mouseleave", hideTip);
    frame.node.setAttribute("aria-label", chart.title);
    return frame.node;
  };
  const legend = chart.series.length > 1 ? makeLegend(chart.series.map((s, i) => [s.name, color(i), "box"])) : makeLegend([]);
  return figure(chart, fitted(draw), legend);
}

function drawColumns(chart) {
  const tallest = Math.max(...chart.series.flatMap((s) => finite(s.y)), chart.level ? chart.level.y : 0, 1e-12);
  const n = chart.names.length;
  const draw = (width) => {
    const frame = makeFrame(width, CHART_HEIGHT, { ...chart.x, domain: [0, n], none: true }, { ...chart.y, domain: [0, tallest * 1.06] });
    const slot = (frame.x.range[1] - frame.x.range[0]) / n, bar = Math.min(70, slot * 0.74) / chart.series.length;
    const room = Math.max(3, Math.floor(slot / 7)), every = Math.ceil(18 / slot);
    chart.names.forEach((name, j) => {
      const middle = frame.x(j + 0.5);
      chart.series.forEach((s, i) => {
        const left = middle + (i - chart.series.length / 2) * bar, y = frame.y(s.y[j] || 0);
        frame.inner.append(svg("rect", {
          x: left, y, width: Math.max(1, bar - 1.5), height: Math.max(0, frame.y(0) - y), fill: color(i), opacity: 0.8, rx: 2,
          onmousemove: (event) => showTip(event, name, chart.series.map((t, k) => [t.name, show(t.y[j], 6), color(k)])), onmouseleave: hideTip,
        }));
      });
      if (j % every === 0) frame.inner.append(svg("text", { x: middle, y: CHART_HEIGHT - frame.room.bottom + 17, "text-anchor": "middle" }, short(name, room)));
    });
    if (chart.level) {
      const y = frame.y(chart.level.y);
      frame.inner.append(svg("line", { class: "ref", x1: frame.x.range[0], x2: frame.x.range[1], y1: y, y2: y }));
    }
    frame.node.setAttribute("aria-label", chart.title);
    return frame.node;
  };
  const entries = chart.series.length > 1 ? chart.series.map((s, i) => [s.name, color(i), "box"]) : [];
  if (chart.level) entries.push([chart.level.name, "var(--faint)", "dash"]);
  return figure(chart, fitted(draw), makeLegend(entries));
}

function drawHeat(chart) {
  const n = chart.names.length;
  const draw = (width) => {
    const left = Math.min(130, 26 + Math.max(...chart.names.map((name) => Math.min(name.length, 16))) * 6.8);
    const size = Math.max(16, Math.min(76, (Math.min(width, n > 8 ? 900 : 620) - left - 6) / n));
    const height = Math.min(size, n > 8 ? 32 : 56), upright = size < 44;
    const top = upright ? 30 + Math.max(...chart.names.map((name) => Math.min(name.length, 16))) * 6.4 : 44;
    const node = svg("svg", { class: "chart heat", viewBox: `0 0 ${width} ${top + n * height + 8}`, role: "img", "aria-label": chart.title });
    node.append(svg("text", { class: "axis-label", x: left + (n * size) / 2, y: 12, "text-anchor": "middle" }, "predicted"));
    const room = Math.max(2, Math.floor((size - 6) / 7));
    chart.names.forEach((name, i) => {
      const total = chart.counts[i].reduce((a, b) => a + b, 0) || 1;
      node.append(svg("text", { x: left - 8, y: top + (i + 0.5) * height + 4, "text-anchor": "end", class: "strong" }, short(name, 16)));
      const x = left + (i + 0.5) * size + (upright ? 4 : 0);
      node.append(svg("text", { x, y: top - 9, "text-anchor": upright ? "start" : "middle", transform: upright ? `rotate(-90 ${x} ${top - 9})` : null, class: "strong" }, short(name, upright ? 16 : room)));
      chart.counts[i].forEach((count, j) => {
        const share = count / total, paint = i === j ? "var(--c0)" : "var(--c6)";
        const cell = svg("rect", {
          x: left + j * size + 1, y: top + i * height + 1, width: size - 2, height: height - 2, rx: Math.min(6, size / 6),
          fill: `color-mix(in oklab, ${paint} ${Math.round(8 + 80 * Math.sqrt(share)) * (count ? 1 : 0) + (count ? 0 : 4)}%, var(--card))`,
          onmousemove: (event) => showTip(event, `${name} → ${chart.names[j]}`, [["rows", show(count, 6)], ["share of the class", percent(share)]]), onmouseleave: hideTip,
        });
        node.append(cell);
        const text = count >= 1e5 && size < 60 ? `${Math.round(count / 1e3)}k` : show(count, 3);
        if (count && size > 7 * text.length + 2) {
          node.append(svg("text", { x: left + (j + 0.5) * size, y: top + (i + 0.5) * height + 4, "text-anchor": "middle", "pointer-events": "none", style: { fill: share > 0.45 ? "#fff" : "var(--ink)", fontWeight: i === j ? 620 : 400 } }, text));
        }
      });
    });
    const middle = top + (n * height) / 2;
    node.append(svg("text", { class: "axis-label", x: 10, y: middle, "text-anchor": "middle", transform: `rotate(-90 10 ${middle})` }, "actual"));
    return node;
  };
  return figure({ ...chart, wide: n > 8 }, fitted(draw));
}

function drawThreshold(chart) {
  const last = chart.tp.length - 1;
  const grid = html("div", { class: "confusion" }), scores = html("div", { class: "scores" }), value = html("b", {}, "");
  const slider = html("input", { type: "range", min: 0, max: last, value: Math.round(last / 2), "aria-label": "threshold", oninput: () => update() });
  const cell = (count, total, right, words) => {
    const share = total ? count / total : 0, paint = right ? "var(--c0)" : "var(--c6)";
    return html("div", { class: "cell", style: { background: `color-mix(in oklab, ${paint} ${Math.round(6 + 44 * share)}%, var(--card))` } }, html("strong", {}, show(count, 6)), html("small", {}, words, html("br"), percent(share)));
  };
  const update = () => {
    const i = Number(slider.value), tp = chart.tp[i], fp = chart.fp[i], fn = chart.positives - tp, tn = chart.negatives - fp;
    const precision = tp / (tp + fp || 1), recall = tp / (chart.positives || 1);
    value.textContent = (i / last).toFixed(2);
    grid.replaceChildren(
      html("div", { class: "head" }, "actual ↓ predicted →"), html("div", { class: "head" }, chart.names[0]), html("div", { class: "head" }, chart.names[1]),
      html("div", { class: "head" }, chart.names[0]), cell(tn, chart.negatives, true, "true negative"), cell(fp, chart.negatives, false, "false positive"),
      html("div", { class: "head" }, chart.names[1]), cell(fn, chart.positives, false, "false negative"), cell(tp, chart.positives, true, "true positive"));
    const entries = [["accuracy", (tp + tn) / (chart.positives + chart.negatives)], ["precision", precision], ["recall", recall], ["F1", (2 * precision * recall) / (precision + recall || 1)]];
    scores.replaceChildren(...entries.map(([name, v]) => html("span", {}, `${name} `, html("b", { "data-score": name }, percent(v)))));
  };
  update();
  const control = html("div", { class: "choices kept" }, html("label", {}, "threshold", value), slider);
  return figure(chart, html("div", {}, control, grid, scores));
}

function drawTable(chart) {
  const row = (cells, tag) => html("tr", {}, cells.map((text, i) => html(tag, { class: i ? "number" : "name" }, text)));
  const table = html("table", {}, html("thead", {}, row(chart.columns, "th")), html("tbody", {}, chart.rows.map((cells) => row(cells, "td"))));
  return figure(chart, html("div", { class: "scroll", style: { maxHeight: "420px", overflowY: "auto" } }, table));
}

const DRAWN = { line: drawLine, points: drawPoints, histogram: drawHistogram, columns: drawColumns, heat: drawHeat, threshold: drawThreshold, table: drawTable };
const drawChart = (chart) => DRAWN[chart.type](chart);
