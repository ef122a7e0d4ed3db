// The tree as SVG. Nodes keep their elements from step to step, so that what changes moves instead of jumping.

const SVG = "http://www.w3.org/2000/svg";
const BOX = { h: 60, gapY: 46, pad: 14 };
const WIDTHS = [[4, 156, 22], [Infinity, 112, 8]]; // up to so many leaves: width of a box, and between two

function svg(name, attributes = {}, parent = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
}

// Leaves side by side, every other node above the middle of its children.
function layoutOf(nodes) {
  const at = new Map();
  let n = 0;
  const place = (id) => {
    const node = nodes[id];
    if (node.left < 0) at.set(id, n++);
    else {
      place(node.left);
      place(node.right);
      at.set(id, (at.get(node.left) + at.get(node.right)) / 2);
    }
  };
  place(0);
  const depth = Math.max(...nodes.map((node) => node.depth));
  const [, w, gap] = WIDTHS.find(([most]) => n <= most);
  const width = Math.max(n * (w + gap) - gap, 3 * w) + 2 * BOX.pad;
  const shift = (width - n * (w + gap) + gap) / 2;
  const x = (id) => shift + at.get(id) * (w + gap) + w / 2;
  const y = (id) => BOX.pad + nodes[id].depth * (BOX.h + BOX.gapY);
  return { x, y, w, width, height: 2 * BOX.pad + BOX.h + depth * (BOX.h + BOX.gapY) };
}

const clip = (text, n) => (text.length > n ? text.slice(0, n - 1) + "…" : text);
const sideOf = (nodes, id) => (nodes[nodes[id].parent].left === id ? "left" : "right");

class TreeView {
  constructor(element, onPick, onRound) {
    this.element = element;
    this.onPick = onPick;
    this.onRound = onRound;
    this.key = null;
  }

  draw(scene) {
    const { tree, states, active, picked } = scene;
    if (scene.step.kind === "start" || (scene.step.kind === "end" && picked === null)) {
      this.key = null;
      this.forest(scene);
      return;
    }
    if (this.key !== scene.key) this.build(scene);
    for (const node of tree.nodes) {
      const state = states.get(node.id) ?? "hidden";
      const group = this.nodes.get(node.id);
      const classes = ["node", state];
      if (active.includes(node.id)) classes.push("active");
      if (picked === node.id) classes.push("picked");
      if (scene.showValues && node.value !== null) classes.push("valued");
      group.setAttribute("class", classes.join(" "));
      const isSeen = state !== "hidden";
      group.setAttribute("tabindex", isSeen ? "0" : "-1");
      group.setAttribute("aria-hidden", isSeen ? "false" : "true");
      this.write(group, scene, node, state);
      const edge = this.edges.get(node.id);
      if (edge) edge.setAttribute("class", `edge ${sideOf(tree.nodes, node.id)} ${state}`);
    }
    this.centre(active); // last: it asks for the layout, and what had no class by then would fade from black
  }

  // The whole model: the start, and what every round adds; a small tree leads to its round.
  forest({ run, step }) {
    const isEnd = step.kind === "end", w = 132, h = 150, n = run.rounds.length;
    const columns = Math.min(n + 1, 5), lines = Math.ceil((n + 1) / columns);
    const width = columns * (w + 26), height = lines * h + 8;
    this.element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.element.style.minWidth = "0";
    this.element.style.maxHeight = `${Math.max(height * 1.2, 190)}px`;
    this.element.replaceChildren();
    const at = (i) => [(i % columns) * (w + 26) + w / 2 + 13, Math.floor(i / columns) * h + 20];
    const start = svg("g", { class: "forest-start", transform: `translate(${at(0)})` }, this.element);
    svg("text", { class: "sum", y: 58, "text-anchor": "middle" }, start).textContent = run.base_score.length > 1 ? "start" : fmt(run.base_score[0]);
    svg("text", { class: "of", y: 118, "text-anchor": "middle" }, start).textContent = "start";
    run.rounds.forEach((round, i) => this.sapling(round, at(i + 1), w, isEnd));
  }

  sapling(round, [x, y], w, isEnd) {
    const nodes = round.trees[0].nodes.filter((n) => n.reason !== "gone");
    const group = svg("g", { class: `sapling ${isEnd ? "" : "to-come"}`, transform: `translate(${x} ${y})`, tabindex: 0, role: "button", "data-round": round.index }, this.element);
    group.setAttribute("aria-label", `Go to round ${round.index + 1}`);
    svg("rect", { class: "hit", x: -w / 2, y: -16, width: w, height: 140, rx: 10 }, group);
    svg("text", { class: "plus", x: -w / 2 - 13, y: 58, "text-anchor": "middle" }, group).textContent = "+";
    const place = layoutOf(round.trees[0].nodes);
    const depth = Math.max(...nodes.map((n) => n.depth), 1), xs = nodes.map((n) => place.x(n.id));
    const low = Math.min(...xs), high = Math.max(...xs);
    const px = (n) => (high === low ? 0 : ((place.x(n.id) - (low + high) / 2) / (high - low)) * (w - 34));
    const py = (n) => 8 + (n.depth / depth) * 78;
    for (const n of nodes.filter((m) => m.parent >= 0)) {
      const parent = round.trees[0].nodes[n.parent];
      svg("line", { class: parent.left === n.id ? "left" : "right", x1: px(parent), y1: py(parent), x2: px(n), y2: py(n) }, group);
    }
    for (const n of nodes) svg("circle", { class: n.value === null ? "inner" : "end", cx: px(n), cy: py(n), r: nodes.length > 15 ? 4 : 7 }, group);
    svg("text", { class: "of", y: 118, "text-anchor": "middle" }, group).textContent = `round ${round.index + 1}`;
    const go = () => this.onRound(round.index);
    group.addEventListener("click", go);
    group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); go(); } });
  }

  // Where the tree is wider than its panel, bring what matters into view.
  centre(active) {
    const frame = this.element.parentElement, wide = frame.scrollWidth;
    if (wide <= frame.clientWidth) return;
    const ids = active.length ? active : [0];
    const x = ids.reduce((sum, id) => sum + this.place.x(id), 0) / ids.length;
    frame.scrollTo({ left: (x / this.place.width) * wide - frame.clientWidth / 2, behavior: "smooth" });
  }

  build(scene) {
    const { tree } = scene;
    this.key = scene.key;
    this.nodes = new Map();
    this.edges = new Map();
    const place = (this.place = layoutOf(tree.nodes));
    this.element.setAttribute("viewBox", `0 0 ${place.width} ${place.height}`);
    this.element.style.minWidth = `${Math.min(place.width, Math.max(320, place.width * 0.66))}px`;
    this.element.style.maxHeight = `${Math.max(place.height * 1.15, 190)}px`;
    this.element.classList.toggle("narrow", place.w < 150);
    this.element.replaceChildren();
    const edges = svg("g", {}, this.element), nodes = svg("g", {}, this.element);
    for (const node of tree.nodes) {
      const x = place.x(node.id), y = place.y(node.id);
      if (node.parent >= 0) this.edges.set(node.id, this.edge(edges, scene, node, place));
      const group = svg("g", { transform: `translate(${x} ${y})`, role: "button", "data-node": node.id }, nodes);
      const body = svg("g", { class: "body" }, group);
      const half = place.w / 2;
      svg("rect", { x: -half, y: 0, width: 2 * half, height: BOX.h, rx: 10 }, body);
      svg("text", { class: "id", x: 9 - half, y: 15 }, body).textContent = `node ${node.id}`;
      svg("text", { class: "size", x: half - 9, y: 15, "text-anchor": "end" }, body).textContent =
        `${node.rows.length} ${node.rows.length === 1 ? "row" : "rows"}`;
      svg("text", { class: "main", x: 0, y: 36, "text-anchor": "middle" }, body);
      svg("text", { class: "sub", x: 0, y: 53, "text-anchor": "middle" }, body);
      svg("title", {}, body);
      group.addEventListener("click", () => this.onPick(node.id));
      group.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          this.onPick(node.id);
        }
      });
      this.nodes.set(node.id, group);
    }
  }

  edge(parent, { data, tree }, node, place) {
    const from = tree.nodes[node.parent], split = from.candidates[from.split];
    const x0 = place.x(from.id), y0 = place.y(from.id) + BOX.h, x1 = place.x(node.id), y1 = place.y(node.id);
    const bend = (y1 - y0) * 0.55, isLeft = from.left === node.id;
    const group = svg("g", {}, parent);
    svg("path", { d: `M${x0} ${y0} C${x0} ${y0 + bend} ${x1} ${y1 - bend} ${x1} ${y1}`, pathLength: 1 }, group);
    const hasMissing = data.X.some((row) => row[split.feature] === null);
    const label = (isLeft ? "yes" : "no") + (hasMissing && split.default_left === isLeft ? "  · missing" : "");
    const text = svg("text", { x: (x0 + x1) / 2 + (isLeft ? -9 : 9), y: (y0 + y1) / 2 - 5, "text-anchor": isLeft ? "end" : "start" }, group);
    text.textContent = label;
    return group;
  }

  write(group, { data, run, tree, showValues }, node, state) {
    const set = (name, text) => { group.querySelector(`.${name}`).textContent = text; };
    const split = node.split >= 0 ? node.candidates[node.split] : null;
    const isNarrow = this.place.w < 150, isFew = node.rows.length <= (isNarrow ? 3 : 5);
    const sum = `Σ ${isNarrow ? "" : words(run).residual + "s "}${fmt(minus(node.g))}`;
    const residuals = isFew ? node.rows.map((r) => fmt(minus(tree.g[r]))).join(", ") : sum;
    let main = `${isNarrow ? "sim." : "similarity"} ${fmt(node.score)}`, sub = residuals, label = `${main}; residuals ${residuals}`;
    if (state === "split") {
      main = shortQuestion(data, split, isNarrow ? 15 : 21);
      sub = `gain ${fmt(split.gain)}`;
      label = `${questionText(data, split)}, ${sub}`;
    } else if (showValues && node.value !== null) {
      main = run.params.own_leaves ? `adds ${fmt(node.value)}` : `output ${fmt(node.weight)}`;
      sub = run.params.own_leaves ? residuals : `adds ${fmt(node.value)}`;
      label = `leaf, ${main}, ${sub}`;
    }
    set("main", main);
    set("sub", clip(sub, isNarrow ? 18 : 24));
    group.querySelector("title").textContent = `node ${node.id}: ${label}`;
    group.setAttribute("aria-label", `Node ${node.id}, ${node.rows.length} rows: ${label}`);
  }
}
