// A run told step by step: a list of {kind, round, tree, node, nodes}, and which nodes are to be seen at each.

function stepsOf(run) {
  const steps = [{ kind: "start", round: 0, tree: 0 }];
  run.rounds.forEach((round, r) => {
    round.trees.forEach((tree, t) => {
      const at = { round: r, tree: t };
      steps.push({ kind: "residuals", ...at });
      steps.push(...growthOf(tree).map((step) => ({ ...step, ...at })));
      steps.push(...pruningOf(run, tree).map((step) => ({ ...step, ...at })));
      steps.push({ kind: "outputs", ...at });
    });
    steps.push({ kind: "update", round: r, tree: round.trees.length - 1 });
  });
  steps.push({ kind: "end", round: run.rounds.length - 1, tree: run.rounds[run.rounds.length - 1].trees.length - 1 });
  return steps;
}

// Node after node: searched, then split or left a leaf; those that the depth limit stops are told together.
function growthOf(tree) {
  const steps = [];
  const deepest = tree.nodes.filter((n) => !n.candidates.length && n.split < 0 && atLimit(tree, n));
  for (const node of tree.nodes) {
    if (deepest.includes(node)) continue;
    if (node.split >= 0) steps.push({ kind: "search", node: node.id }, { kind: "split", node: node.id });
    else steps.push({ kind: "leaf", node: node.id });
  }
  if (deepest.length) steps.push({ kind: "limit", nodes: deepest.map((n) => n.id) });
  return steps;
}

// A node that was not searched; one that pruning cut off has lost its own reason, but its depth is its sibling's.
function atLimit(tree, node) {
  if (node.reason === "max_depth") return true;
  return node.reason === "gone" && tree.nodes.every((n) => n.depth < node.depth || !n.candidates.length);
}

function pruningOf(run, tree) {
  if (!(run.params.gamma > 0) || run.params.tree_method !== "exact") return [];
  const made = tree.nodes.filter((n) => n.split >= 0).sort((a, b) => b.depth - a.depth || a.id - b.id);
  return made.map((n) => ({ kind: n.reason === "split" ? "keep" : "prune", node: n.id }));
}

// What is to be seen of the tree at steps[at]: state of every node id.
function treeAt(run, steps, at) {
  const step = steps[at];
  const seen = new Map();
  if (step.kind === "start") return seen;
  const tree = run.rounds[step.round].trees[step.tree];
  const shown = (id, state) => seen.set(id, state);
  shown(0, "open");
  for (let i = at; i >= 0 && steps[i].round === step.round && steps[i].tree === step.tree; i--) {
    if (steps[i].kind === "residuals") {
      for (let k = i; k <= at; k++) playStep(tree, steps[k], shown);
      return seen;
    }
  }
  for (const node of tree.nodes) shown(node.id, node.left >= 0 ? "split" : "leaf"); // update and end come after all
  for (const node of tree.nodes) if (node.reason === "pruned" || node.reason === "gone") playStep(tree, { kind: "prune", node: node.id }, shown);
  return seen;
}

function playStep(tree, step, shown) {
  const node = tree.nodes[step.node];
  if (step.kind === "split") {
    shown(node.id, "split");
    shown(node.left, "open");
    shown(node.right, "open");
  } else if (step.kind === "leaf") shown(node.id, "leaf");
  else if (step.kind === "limit") step.nodes.forEach((id) => shown(id, "leaf"));
  else if (step.kind === "prune" && node.left >= 0) {
    shown(node.id, "leaf");
    for (const child of [node.left, node.right]) shown(child, "gone");
  }
}

// The step of another run that tells the same, or the nearest before it.
function sameStep(steps, wanted) {
  const key = (s) => `${s.kind} ${s.round} ${s.tree} ${s.node ?? ""}`;
  const exact = steps.findIndex((s) => key(s) === key(wanted));
  if (exact >= 0) return exact;
  const order = ["start", "residuals", "search", "split", "leaf", "limit", "prune", "keep", "outputs", "update", "end"];
  const rank = (s) => [s.round, s.tree, order.indexOf(s.kind)];
  const before = (a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
  let found = 0;
  steps.forEach((s, i) => { if (before(rank(s), rank(wanted)) <= 0) found = i; });
  return found;
}
