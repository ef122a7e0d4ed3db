// Puts every view in its place.

function viewQuality(holder) {
  const views = charts.quality, place = html("div", { class: "grid" });
  const choose = (i) => place.replaceChildren(...views[i].charts.map(drawChart));
  if (views.length > 1) holder.append(makeChoices(views.map((view) => view.name), 0, choose));
  holder.append(place);
  choose(0);
}

const VIEWS = {
  learning: (holder) => holder.append(...charts.learning.map(drawChart)),
  labels: (holder) => holder.append(...charts.labels.map(drawChart)),
  quality: viewQuality,
  importance: viewImportance,
  shap: viewShap,
  rows: viewRows,
  trees: viewTrees,
};
for (const holder of document.querySelectorAll("[data-view]")) VIEWS[holder.dataset.view](holder);

const theme = document.getElementById("theme");
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  theme.textContent = name === "dark" ? "Light" : "Dark";
}
theme.addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

const copy = document.getElementById("copy");
copy.addEventListener("click", () => {
  const code = document.querySelector("#reproduce code"), range = document.createRange();
  range.selectNodeContents(code);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  // file:// pages may not use the clipboard; the code is then selected for Ctrl-C
  const done = () => { copy.textContent = "Copied"; };
  if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, () => { copy.textContent = "Selected"; });
});

const links = new Map([...document.querySelectorAll(".side li a")].map((link) => [link.hash.slice(1), link]));
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) {
    links.forEach((link) => link.classList.remove("here"));
    links.get(entry.target.id).classList.add("here");
  }
}, { rootMargin: "-20% 0px -70% 0px" });
document.querySelectorAll("main section").forEach((section) => seen.observe(section));
document.documentElement.dataset.ready = "yes";
