// The tree as SVG. Nodes keep their elements from step to step, so that what changes moves instead of jumping.

const SVG = "http://www.w3.org/2000/svg";
const BOX = { w: 156, h: 60, gapX: 22, gapY: 46, pad: 14 };

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
  const width = Math.max(n * (BOX.w + BOX.gapX) - BOX.gapX, 3 * BOX.w) + 2 * BOX.pad;
  const shift = (width - n * (BOX.w + BOX.gapX) + BOX.gapX) / 2;
  const x = (id) => shift + at.get(id) * (BOX.w + BOX.gapX) + BOX.w / 2;
  const y = (id) => BOX.pad + nodes[id].depth * (BOX.h + BOX.gapY);
  return { x, y, width, height: 2 * BOX.pad + BOX.h + depth * (BOX.h + BOX.gapY) };
}

const clip = (text, n) => (text.length > n ? text.slice(0, n - 1) + "…" : text);
const sideOf = (nodes, id) => (nodes[nodes[id].parent].left === id ? "left" : "right");

class TreeView {
  constructor(element, onPick) {
    this.element = element;
    this.onPick = onPick;
    this.key = null;
  }

  draw(scene) {
    const { run, tree, states, active, picked } = scene;
    if (!tree) {
      this.element.replaceChildren();
      this.key = null;
      return;
    }
    if (this.key !== scene.key) this.build(scene);
    this.centre(active);
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
    this.element.style.minWidth = `${Math.min(place.width, Math.max(320, place.width * 0.8))}px`;
    this.element.style.maxHeight = `${Math.max(place.height * 1.15, 190)}px`;
    this.element.replaceChildren();
    const edges = svg("g", {}, this.element), nodes = svg("g", {}, this.element);
    for (const node of tree.nodes) {
      const x = place.x(node.id), y = place.y(node.id);
      if (node.parent >= 0) this.edges.set(node.id, this.edge(edges, scene, node, place));
      const group = svg("g", { transform: `translate(${x} ${y})`, role: "button", "data-node": node.id }, nodes);
      const body = svg("g", { class: "body" }, group);
      svg("rect", { x: -BOX.w / 2, y: 0, width: BOX.w, height: BOX.h, rx: 10 }, body);
      svg("text", { class: "id", x: -BOX.w / 2 + 9, y: 15 }, body).textContent = `node ${node.id}`;
      svg("text", { class: "size", x: BOX.w / 2 - 9, y: 15, "text-anchor": "end" }, body).textContent =
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
    const text = svg("text", { x: (x0 + x1) / 2 + (isLeft ? -9 : 9), y: (y0 + y1) / 2 + 4, "text-anchor": isLeft ? "end" : "start" }, group);
    text.textContent = label;
    return group;
  }

  write(group, { data, run, tree, showValues }, node, state) {
    const set = (name, text) => { group.querySelector(`.${name}`).textContent = text; };
    const split = node.split >= 0 ? node.candidates[node.split] : null;
    const residuals = node.rows.map((r) => fmt(minus(tree.g[r]))).join(", ");
    let main = `similarity ${fmt(node.score)}`, sub = residuals, label = `${main}; residuals ${residuals}`;
    if (state === "split") {
      main = questionText(data, split);
      sub = `gain ${fmt(split.gain)}`;
      label = `${main}, ${sub}`;
    } else if (showValues && node.value !== null) {
      main = run.params.own_leaves ? `adds ${fmt(node.value)}` : `output ${fmt(node.weight)}`;
      sub = run.params.own_leaves ? residuals : `adds ${fmt(node.value)}`;
      label = `leaf, ${main}, ${sub}`;
    }
    set("main", clip(main, 22));
    set("sub", clip(sub, 24));
    group.querySelector("title").textContent = `node ${node.id}: ${label}`;
    group.setAttribute("aria-label", `Node ${node.id}, ${node.rows.length} rows: ${label}`);
  }
}
