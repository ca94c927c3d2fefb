// The page: its filters are in the address behind '#', so that a link shows what its author saw.

const form = byId("filters");
const any = "*";

function fillSelects() {
  for (const [key, { text, of, keys }] of Object.entries(facets)) {
    const values = [...new Set(fleet.names.map((_, node) => of(factOf(node), effectOf(node))))];
    if (keys) values.sort((a, b) => [...keys.keys()].indexOf(a) - [...keys.keys()].indexOf(b));
    else values.sort((a, b) => (a === "") - (b === "") || text(a).localeCompare(text(b), "en", { numeric: true }));
    const alike = new Set(values.map(text)).size < values.length;
    const options = values.map((value) => new Option(alike && value ? value : text(value), value));
    form.elements[key].append(new Option("any", any), ...options);
  }
}

/** Return the filter in the address; an anchor of a part of the page is none. */
function filterOfAddress() {
  const hash = location.hash.slice(1);
  return new URLSearchParams(hash.includes("=") ? hash : "");
}

function filterOfForm() {
  const filter = new URLSearchParams();
  const q = form.elements.q.value.trim();
  if (q) filter.set("q", q);
  for (const key of Object.keys(facets)) {
    if (form.elements[key].value !== any) filter.set(key, form.elements[key].value);
  }
  const { key, value } = byId("because").dataset;
  if (key) filter.set(key, value);
  return filter;
}

/** Show the reason or the sentence by which nodes are filtered, which a press removes. */
function because(filter) {
  const button = byId("because");
  const key = ["why", "effect"].find((name) => filter.has(name)) ?? "";
  button.hidden = !key;
  button.dataset.key = key;
  button.dataset.value = filter.get(key) ?? "";
  button.textContent = `${key === "why" ? filter.get(key) : data.head.sentences[filter.get(key)]} ✕`;
}

function apply(filter, { write }) {
  const began = performance.now();
  const nodes = matching(filter);
  const number = nodes.reduce((sum, one) => sum + one, 0);
  const filtered = [...filter.keys()].length > 0;
  byId("count").textContent = filtered
    ? `${many.format(number)} of ${counted(nodes.length, "node")}`
    : counted(nodes.length, "node");
  byId("clear").hidden = !filtered;
  if (!write) {
    form.elements.q.value = filter.get("q") ?? "";
    for (const key of Object.keys(facets)) form.elements[key].value = filter.get(key) ?? any;
  }
  because(filter);
  if (write) history.replaceState(null, "", filtered ? `#${filter}` : location.pathname + location.search);
  picture.show(nodes, filter);
  list.show(nodes);
  document.documentElement.dataset.took = (performance.now() - began).toFixed(1);
}

document.querySelector(".explorer").hidden = false; // Without this script there is nothing to explore.
fillSelects();
picture.begin(detail.show);
list.begin(detail.show);
apply(filterOfAddress(), { write: false });
form.addEventListener("input", () => apply(filterOfForm(), { write: true }));
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", (event) => {
  event.preventDefault();
  const nothing = new URLSearchParams();
  apply(nothing, { write: false });
  history.replaceState(null, "", location.pathname + location.search);
});
byId("because").addEventListener("click", () => {
  byId("because").dataset.key = "";
  apply(filterOfForm(), { write: true });
});
byId("legend").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const isPressed = button.getAttribute("aria-pressed") === "true";
  form.elements[picture.facet()].value = isPressed ? any : button.dataset.value;
  apply(filterOfForm(), { write: true });
});
addEventListener("hashchange", () => {
  if (location.hash.includes("=") || location.hash === "") apply(filterOfAddress(), { write: false });
  if (location.hash.includes("=")) byId("nodes").scrollIntoView();
});
document.documentElement.dataset.ready = performance.now().toFixed(0);
