// The trees: one at a time, folded where they are large, with the path of the chosen row.

const NODE = { width: 118, height: 46, gap: 10, level: 88 };

function viewTrees(holder) {
  const forest = charts.forest, trees = forest.trees, rows = charts.rows;
  const state = { tree: 0, chosen: 0, open: new Set(), path: rows.length > 0 };
  const canvas = html("div", { class: "canvas", tabindex: 0, "aria-label": "tree" }), details = html("div", { class: "details" });
  const number = html("input", { type: "number", min: 0, max: trees.length - 1, value: 0, "aria-label": "number of the tree", style: { width: "76px" }, onchange: () => go(Number(number.value)) });
  const slider = html("input", { type: "range", min: 0, max: trees.length - 1, value: 0, "aria-label": "tree", oninput: () => go(Number(slider.value)) });
  const about = html("span", { class: "note", "data-about": "" });
  const button = (words, name, act) => html("button", { type: "button", "aria-label": name, onclick: act }, words);
  const bar = html("div", { class: "choices" }, button("←", "previous tree", () => go(state.tree - 1)), html("label", {}, "tree", number), button("→", "next tree", () => go(state.tree + 1)), slider,
    button("Unfold all", "unfold all", () => { tree().left.forEach((child, node) => child >= 0 && state.open.add(node)); draw(); }), button("Fold", "fold", () => { openTop(); draw(); }));
  const tree = () => trees[state.tree];
  const below = (node) => (tree().left[node] < 0 || !state.open.has(node) ? [] : [tree().left[node], tree().right[node]]);

  // Open as many levels as fit beside each other.
  function openTop() {
    state.open = new Set();
    let level = [0];
    const fits = Math.max(2, Math.floor(canvas.clientWidth / (NODE.width + NODE.gap) / 0.84)) || 6;
    while (level.length) {
      const next = level.flatMap((node) => (tree().left[node] < 0 ? [] : [tree().left[node], tree().right[node]]));
      if (!next.length || (next.length > fits && state.open.size)) break;
      level.forEach((node) => tree().left[node] >= 0 && state.open.add(node));
      level = next;
    }
  }

  function go(index) {
    state.tree = Math.max(0, Math.min(trees.length - 1, Math.round(index) || 0));
    state.chosen = 0;
    openTop();
    draw();
  }

  // Nodes from the root to the leaf that the chosen row reaches.
  function rowPath() {
    const parent = new Map();
    tree().left.forEach((child, node) => { if (child >= 0) { parent.set(child, node); parent.set(tree().right[node], node); } });
    const found = [];
    if (state.path) for (let node = rows[chosenRow.index].leaves[state.tree]; node !== undefined; node = parent.get(node)) found.push(node);
    return new Set(found);
  }

  const nameOf = (node) => forest.names[tree().feature[node]];
  const setOf = (node) => tree().sets && tree().sets[node];
  const leafWords = (node) => (tree().vectors ? `(${tree().vectors[node].slice(0, 3).map((v) => show(v, 3)).join(", ")}${tree().vectors[node].length > 3 ? ", …" : ""})` : show(tree().value[node], 5));
  const largest = () => Math.max(1e-12, ...tree().value.map((v, node) => (tree().left[node] < 0 ? Math.abs(v || 0) : 0)));
  const weightOf = (node) => (tree().vectors ? tree().vectors[node][0] : tree().value[node]) || 0;

  // A test as in the text dump: it holds for listed categories (to the right) and for numbers below (to the left).
  function testWords(node) {
    const set = setOf(node);
    if (!set) return `< ${show(tree().value[node], 6)}`;
    const all = `in {${set.join(", ")}}`;
    return all.length <= 17 ? all : `in {${short(set[0], 7)}, +${set.length - 1}}`;
  }
  const yesSide = (node) => (setOf(node) ? 1 : 0);

  // Leaves side by side, parents above the middle of their children.
  function place() {
    const at = new Map();
    let next = 0, deepest = 0;
    const visit = (node, depth) => {
      deepest = Math.max(deepest, depth);
      const children = below(node).map((child) => visit(child, depth + 1));
      const x = children.length ? (children[0] + children[1]) / 2 : next++ * (NODE.width + NODE.gap) + NODE.width / 2 + 20;
      at.set(node, [x, depth * NODE.level + 20]);
      return x;
    };
    visit(0, 0);
    return { at, width: next * (NODE.width + NODE.gap) - NODE.gap + 40, height: (deepest + 1) * NODE.level - (NODE.level - NODE.height) + 44 };
  }

  function drawEdges(drawing, at, path) {
    const total = tree().cover[0] || 1, words = [];
    for (const [node, [x, y]] of at) below(node).forEach((child, side) => {
      const [cx, cy] = at.get(child), y0 = y + NODE.height, bend = (cy - y0) / 2;
      const thick = 1.2 + 8 * Math.sqrt((tree().cover[child] || 0) / total);
      const onPath = path.has(child);
      drawing.append(svg("path", { class: onPath ? "edge path" : "edge", d: `M${x},${y0}C${x},${y0 + bend} ${cx},${cy - bend} ${cx},${cy}`, "stroke-width": onPath ? Math.max(2.5, thick * 0.6) : thick }));
      const t = 0.5, px = (x + cx) / 2, py = y0 + (cy - y0) * t;
      words.push(svg("text", { class: "word", x: px, y: py + 4 }, yesSide(node) === side ? "yes" : "no"));
      if ((tree().missing[node] ? 0 : 1) === side) words.push(svg("circle", { class: "na", cx, cy: cy - 5, r: 3.4 }, svg("title", {}, "missing values go here")));
    });
    drawing.append(...words);
  }

  function drawNode(node, [x, y], path, scale) {
    const leaf = tree().left[node] < 0;
    const group = svg("g", { class: `node ${leaf ? "leaf" : "split"}${path.has(node) ? " path" : ""}${node === state.chosen ? " chosen" : ""}`, "data-node": node, tabindex: 0, role: "button",
      onclick: () => choose(node), onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(node); } },
      onmousemove: (event) => showTip(event, leaf ? `leaf ${node}` : nameOf(node), factsOf(node).slice(0, 5)), onmouseleave: hideTip });
    const strength = leaf ? Math.round(10 + 46 * Math.min(1, Math.abs(weightOf(node)) / scale)) : 0;
    const paint = leaf ? `color-mix(in oklab, ${weightOf(node) >= 0 ? "var(--up)" : "var(--down)"} ${strength}%, var(--card))` : null;
    group.append(svg("rect", { class: "box", x: x - NODE.width / 2, y, width: NODE.width, height: NODE.height, rx: leaf ? 23 : 9, style: paint ? { fill: paint } : {} }));
    group.append(svg("text", { class: "name", x, y: y + 20 }, leaf ? leafWords(node) : short(nameOf(node), 14)));
    group.append(svg("text", { class: "cond", x, y: y + 36 }, leaf ? `cover ${show(tree().cover[node], 3)}` : testWords(node)));
    if (!leaf && !state.open.has(node)) {
      group.append(svg("g", { class: "fold", "data-fold": node, onclick: (event) => { event.stopPropagation(); state.open.add(node); draw(); } },
        svg("circle", { cx: x, cy: y + NODE.height + 5, r: 8.5 }), svg("text", { x, y: y + NODE.height + 9 }, "+")));
    }
    return group;
  }

  function factsOf(node) {
    const t = tree(), entries = [];
    if (t.left[node] < 0) entries.push(["weight", t.vectors ? t.vectors[node].map((v) => show(v, 7)).join(", ") : show(t.value[node], 9)]);
    else {
      const set = setOf(node);
      entries.push(set ? ["right if in", set.join(", ")] : ["left if", `< ${show(t.value[node], 9)}`]);
      entries.push(["missing", t.missing[node] ? "left" : "right"], ["gain", show(t.gain[node], 6)]);
    }
    entries.push(["cover", show(t.cover[node], 6)]);
    if (node) entries.push(["share of cover", percent((t.cover[node] || 0) / (t.cover[0] || 1))]);
    return entries;
  }

  function showDetails() {
    const node = state.chosen, leaf = tree().left[node] < 0;
    const list = html("dl", {}, factsOf(node).map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", { "data-fact": name }, value))));
    details.replaceChildren(html("h3", {}, leaf ? `Leaf ${node}` : `${node}: ${nameOf(node)}`), list);
    if (leaf && tree().vectors && forest.outputs.length > 1) details.append(html("p", {}, `Weights of ${forest.outputs.join(", ")}.`));
    if (state.path) details.append(html("p", {}, `The red path is that of row ${show(rows[chosenRow.index].row)}.`));
  }

  function choose(node) {
    state.chosen = node;
    for (const group of canvas.querySelectorAll(".node")) group.classList.toggle("chosen", Number(group.dataset.node) === node);
    showDetails();
  }

  function draw() {
    const { at, width, height } = place(), path = rowPath(), scale = largest();
    const shrink = Math.min(1, Math.max(0.84, (canvas.clientWidth - 4) / width));
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width: width * shrink, height: height * shrink, role: "img", "aria-label": `tree ${state.tree}` });
    drawEdges(drawing, at, path);
    for (const [node, spot] of at) drawing.append(drawNode(node, spot, path, scale));
    canvas.replaceChildren(drawing);
    canvas.scrollLeft = (canvas.scrollWidth - canvas.clientWidth) / 2;
    number.value = slider.value = state.tree;
    const t = tree(), leaves = t.left.filter((child) => child < 0).length;
    about.textContent = [`tree ${state.tree} of ${show(forest.total)}`, `round ${t.round}`, t.output ? `output ${t.output}` : "", `${show(leaves)} leaves`, t.scale !== undefined ? `counts ${show(t.scale, 4)} times` : ""].filter(Boolean).join(" · ");
    showDetails();
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") { event.preventDefault(); go(state.tree + 1); }
    if (event.key === "ArrowLeft") { event.preventDefault(); go(state.tree - 1); }
  });
  holder.append(bar);
  if (rows.length) {
    const select = makeSelect("row whose path is shown", ["no row", ...rows.map(rowName)], 1, (i) => { state.path = i > 0; if (i) chooseRow(i - 1); else draw(); });
    holder.append(html("div", { class: "choices" }, html("label", {}, "path of", select)));
    chosenRow.listeners.push((index) => { if (state.path) select.selectedIndex = index + 1; draw(); });
  }
  holder.append(about, html("div", { class: "forest", style: { marginTop: "8px" } }, canvas, details));
  let last = 0;
  new ResizeObserver(() => { if (canvas.clientWidth !== last) { last = canvas.clientWidth; openTop(); draw(); } }).observe(canvas);
}
