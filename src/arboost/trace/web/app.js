// State, events and drawing: which run, which step, which node and candidate the reader has picked.

const AXES = [["reg_lambda", "λ", "lambda"], ["gamma", "γ", "gamma"], ["eta", "η", "eta"]];
const $ = (id) => document.getElementById(id);

class App {
  constructor(data) {
    this.data = data;
    this.at = AXES.map(([name]) => 0);
    this.treeView = new TreeView($("tree"), (id) => this.pick(id), (round) => this.goToRound(round));
    this.chooseRun(this.ownRun());
    this.step = 0;
    this.picked = null;
    this.candidate = null;
    this.buildSliders();
    this.listen();
    this.draw();
  }

  // ---- runs ----

  ownRun() {
    return AXES.map(([name]) => this.data.axes[name].indexOf(this.data.own[name]));
  }

  chooseRun(at) {
    this.at = at;
    const index = AXES.reduce((k, [name], i) => k * this.data.axes[name].length + at[i], 0);
    this.run = this.data.runs[index];
    this.runIndex = index;
    this.steps = stepsOf(this.run);
  }

  slide(axis, value) {
    const wanted = this.steps[this.step];
    this.chooseRun(this.at.map((k, i) => (i === axis ? value : k)));
    this.step = sameStep(this.steps, wanted);
    this.forget();
    this.draw();
  }

  buildSliders() {
    $("sliders").innerHTML = AXES.map(([name, symbol, word], i) => {
      const values = this.data.axes[name];
      const stops = values.length > 1 ? "" : 'disabled title="One value was recorded: the trace is large, or sliders named no other"';
      return `<label class="slider" for="slide-${word}"><span class="symbol">${symbol}</span><span class="word">${word}</span>
        <output id="value-${word}"></output>
        <input id="slide-${word}" type="range" min="0" max="${values.length - 1}" step="1" value="${this.at[i]}" data-axis="${i}" ${stops}></label>`;
    }).join("");
  }

  // ---- steps and picks ----

  go(step) {
    this.step = Math.min(Math.max(step, 0), this.steps.length - 1);
    this.forget();
    this.draw();
  }

  goToRound(round) {
    this.go(this.steps.findIndex((s) => s.kind === "residuals" && s.round === round));
  }

  forget() {
    this.picked = null;
    this.candidate = null;
  }

  pick(id) {
    this.picked = this.picked === id ? null : id;
    this.candidate = null;
    this.draw();
  }

  pickCandidate(index) {
    this.candidate = index;
    this.draw();
  }

  listen() {
    $("first").onclick = () => this.go(0);
    $("back").onclick = () => this.go(this.step - 1);
    $("next").onclick = () => this.go(this.step + 1);
    $("last").onclick = () => this.go(this.steps.length - 1);
    $("scrub").oninput = (event) => this.go(Number(event.target.value));
    $("sliders").oninput = (event) => this.slide(Number(event.target.dataset.axis), Number(event.target.value));
    $("theme").onclick = switchTheme;
    const pickRow = (event) => {
      const row = event.target.closest("tr[data-candidate]");
      if (row) this.pickCandidate(Number(row.dataset.candidate));
    };
    $("candidates").onclick = pickRow;
    $("candidates").onkeydown = (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        pickRow(event);
      }
    };
    document.addEventListener("keydown", (event) => this.onKey(event));
    let waiting = 0;
    window.addEventListener("resize", () => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => this.draw());
    });
  }

  onKey(event) {
    const isSlider = event.target.matches?.("input[type=range]");
    if (event.altKey || event.ctrlKey || event.metaKey || isSlider) return;
    const actions = {
      ArrowRight: () => this.go(this.step + 1),
      ArrowLeft: () => this.go(this.step - 1),
      Home: () => this.go(0),
      End: () => this.go(this.steps.length - 1),
      Escape: () => { this.forget(); this.draw(); },
      t: switchTheme,
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  // ---- drawing ----

  scene() {
    const step = this.steps[this.step], { run, data } = this;
    const tree = step.kind === "start" ? null : run.rounds[step.round].trees[step.tree];
    const states = treeAt(run, this.steps, this.step);
    const id = this.picked ?? step.node ?? null;
    const node = tree && id !== null ? tree.nodes[id] : null;
    let candidate = null;
    if (node && node.candidates.length) {
      const best = node.split >= 0 ? node.split : node.candidates.findIndex((c) => c.verdict === "best");
      candidate = node.candidates[this.candidate ?? best] ?? null;
    }
    const active = this.picked !== null ? [this.picked] : step.nodes ?? (step.node === undefined ? [] : [step.node]);
    const showValues = ["outputs", "update", "end"].includes(step.kind);
    const key = `${this.runIndex} ${step.round} ${step.tree}`;
    return { data, run, step, tree, states, node, candidate, active, picked: this.picked, showValues, key };
  }

  draw() {
    const scene = this.scene(), { step, run, tree, data } = scene;
    this.drawStepper(scene);
    this.drawSliders();
    const story = (this.picked !== null ? STORIES.picked : STORIES[step.kind])(scene);
    $("caption").textContent = story.caption;
    $("story").innerHTML = story.html;
    const target = run.params.n_outputs > 1 && tree ? `, ${data.outputs[tree.target]}` : "";
    $("kicker").textContent = step.kind === "start" ? "Before the first round" : step.kind === "end" ? "The end" : `Round ${step.round + 1} of ${run.rounds.length}${target}`;
    const isWhole = step.kind === "start" || step.kind === "end";
    $("tree-title").textContent = isWhole ? "The model: a start, and a tree a round" : `Tree of round ${step.round + 1}${target}`;
    $("tree-legend").innerHTML = isWhole ? "click a tree to go to its round" : '<span class="left">left: yes</span> <span class="right">right: no</span>';
    this.treeView.draw(scene);
    $("rows").innerHTML = rowsTable(scene);
    $("rows-title").textContent = scene.node ? `Rows of ${nodeName(scene.node)}` : "Rows";
    $("rows-legend").innerHTML = scene.candidate ? '<span class="left">goes left</span> <span class="right">goes right</span>' : "";
    this.drawChart(scene);
    $("candidates").innerHTML = candidatesTable(scene);
  }

  drawChart(scene) {
    const { step, run, tree, node, data } = scene, element = $("chart");
    const legend = (title, text) => { $("chart-title").textContent = title; $("chart-legend").innerHTML = text; };
    if (node && node.candidates.length) {
      const hasMissing = node.candidates.some((c) => c.n_missing);
      legend("Gain against threshold", hasMissing ? "◀ missing rows go left · ▶ right" : "dots below: the node’s rows");
      drawGains(element, scene, node, scene.candidate, (k) => this.pickCandidate(k));
    } else if (step.kind === "end" && hasMetric(run)) {
      legend("On the training rows", esc(Object.keys(run.metrics)[0]));
      drawMetric(element, run);
    } else {
      const isAfter = step.kind === "update" || step.kind === "end";
      const before = step.kind === "start" ? run.prediction : marginsBefore(run, step.round).prediction;
      const cut = drawPredictions(element, scene, tree ? tree.target : 0, before, isAfter ? run.rounds[step.round].prediction : null);
      legend("Predictions and labels", `◆ ${esc(data.target)} · ● prediction${cut ? " · " + cut : ""}`);
    }
  }

  drawStepper(scene) {
    const last = this.steps.length - 1;
    $("scrub").max = last;
    $("scrub").value = this.step;
    $("scrub").setAttribute("aria-valuetext", `step ${this.step + 1} of ${last + 1}`);
    $("count").textContent = `${this.step + 1} / ${last + 1}`;
    $("back").disabled = $("first").disabled = this.step === 0;
    $("next").disabled = $("last").disabled = this.step === last;
    const share = (kinds) => this.steps.filter(kinds).length;
    const blocks = [["start", share((s) => s.kind === "start")], ...this.run.rounds.map((r) => [`round ${r.index + 1}`, share((s) => s.round === r.index && s.kind !== "start" && s.kind !== "end")]), ["end", 1]];
    const { kind, round } = scene.step, now = kind === "start" || kind === "end" ? kind : `round ${round + 1}`;
    $("rounds").innerHTML = blocks.map(([name, n]) => `<span style="flex:${n}" class="${name === now ? "now" : ""}">${n > 1 ? name : ""}</span>`).join("");
    fill($("scrub"));
  }

  drawSliders() {
    AXES.forEach(([name, , word], i) => {
      $(`slide-${word}`).value = this.at[i];
      fill($(`slide-${word}`));
      const value = this.data.axes[name][this.at[i]];
      $(`value-${word}`).textContent = fmt(value);
      $(`slide-${word}`).setAttribute("aria-valuetext", `${word} ${fmt(value)}`);
    });
    const p = this.run.params;
    const depth = p.max_depth ? `max_depth ${p.max_depth}` : "no max_depth";
    $("setting").textContent = `${p.objective} · ${depth} · min_child_weight ${fmt(p.min_child_weight)} · tree_method ${p.tree_method}`;
  }
}

// Whether the first metric has a value everywhere: one may not be defined on the rows, or none be wanted.
function hasMetric(run) {
  const [name] = Object.keys(run.metrics);
  return name !== undefined && [run, ...run.rounds].every((part) => part.metrics[name] !== null);
}

// How much of a slider's track is behind its thumb.
function fill(slider) {
  slider.style.setProperty("--fill", `${(100 * slider.value) / Math.max(slider.max, 1)}%`);
}

function switchTheme() {
  const isDark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
}

async function recordedRuns() {
  const packed = Uint8Array.from(atob($("recorded").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

recordedRuns().then((data) => {
  $("version").textContent = data.version;
  window.trace = new App(data);
}, (error) => {
  $("caption").textContent = "This browser is too old to unpack the recorded runs.";
  $("story").textContent = String(error);
});
