// The list of nodes: a row for nodes alike, or one for each; and the detail of a node.

const list = (() => {
  const chunk = 60;
  const page = 300;
  const single = data.clusters.length === 1;
  const columns = [
    ["state", (fact) => states.get(fact.state)],
    ...(single ? [] : [["cluster", (fact) => fact.cluster]]),
    ["policy", (fact) => facets.policy.text(fact.policy)],
    ["pool", (fact) => fact.pool ?? "-", "minor"],
    ["driver", (fact) => (fact.driver ? short(fact.driver) : "-")],
    ["plugin", (fact) => (fact.plugin ? short(fact.plugin) : "-"), "minor"],
    ["resources", (fact) => fact.resources.join(", ") || "-", "minor"],
    ["kernel", (fact) => fact.kernel || "(unknown)", "minor long"],
  ];
  const titles = { resources: "Resources" };
  let rows = [];
  let done = 0;
  let sort = null;
  let nodes = new Uint8Array();
  let open = () => {};

  // The facts that look alike in every column share a row.
  const numbers = new Map();
  const rowOf = fleet.facts.map((fact) => {
    const key = JSON.stringify(columns.map(([, text]) => text(fact)));
    if (!numbers.has(key)) numbers.set(key, numbers.size);
    return numbers.get(key);
  });

  function gathered() {
    const together = byId("together").checked;
    const members = new Map();
    for (let node = 0; node < nodes.length; node++) {
      if (!nodes[node]) continue;
      const key = together ? rowOf[fleet.factOf[node]] : node;
      if (members.has(key)) members.get(key).push(node);
      else members.set(key, [node]);
    }
    return [...members.values()].map((own) => ({ nodes: own, fact: fleet.facts[fleet.factOf[own[0]]] }));
  }

  const rank = new Map([...states.keys()].map((key, index) => [key, index]));
  function sorted(found) {
    const usual = (a, b) => (b.fact.state === "problem") - (a.fact.state === "problem") || b.nodes.length - a.nodes.length || a.nodes[0] - b.nodes[0];
    if (!sort) return found.sort(usual);
    const [key, way] = sort;
    const text = columns.find(([name]) => name === key)?.[1];
    const compared = (row) => (key === "state" ? rank.get(row.fact.state) : text ? text(row.fact) : byId("together").checked ? row.nodes.length : row.nodes[0]);
    return found.map((row) => [compared(row), row]).sort(([a], [b]) => (a < b ? -way : a > b ? way : 0)).map(([, row]) => row);
  }

  function head() {
    const titled = [["nodes", "Nodes"], ...columns.map(([key]) => [key, facets[key]?.title ?? titles[key]])];
    for (const [key, title] of titled) {
      const minor = columns.find(([name]) => name === key)?.[2] ?? "";
      const button = element("button", title, { type: "button" });
      const cell = element("th", "", { scope: "col", className: minor }, button);
      button.addEventListener("click", () => {
        const way = sort?.[0] === key ? -sort[1] : key === "nodes" && byId("together").checked ? -1 : 1;
        sort = [key, way];
        for (const other of cell.parentNode.children) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
        fill();
      });
      byId("list").tHead.rows[0].append(cell);
    }
  }

  function nameButton(node) {
    const button = element("button", fleet.names[node], { type: "button" });
    button.addEventListener("click", () => open(node));
    return button;
  }

  function first(row) {
    if (!byId("together").checked || row.nodes.length === 1) return [nameButton(row.nodes[0])];
    const names = row.nodes.slice(0, 2).map((node) => fleet.names[node]);
    const more = row.nodes.length - names.length;
    const button = element("button", counted(row.nodes.length, "node"), { type: "button", "aria-expanded": "false" });
    button.addEventListener("click", () => unfold(button, row));
    return [button, element("small", more ? `${names.join(", ")} and ${many.format(more)} more` : names.join(" and "))];
  }

  function unfold(button, row) {
    const line = button.closest("tr");
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) { line.nextSibling.remove(); return; }
    const members = element("div", "", { className: "members" });
    const more = element("button", "Show more", { type: "button" });
    let from = 0;
    const extend = () => {
      for (const node of row.nodes.slice(from, from + page)) members.append(nameButton(node));
      from += page;
      if (from < row.nodes.length) members.append(more);
      else more.remove();
    };
    more.addEventListener("click", extend);
    extend();
    line.after(element("tr", "", {}, element("td", "", { colSpan: columns.length + 1 }, members)));
  }

  function extend(until = done + chunk) {
    const made = document.createDocumentFragment();
    for (const row of rows.slice(done, until)) {
      const line = element("tr", "", {}, element("td", "", { className: "names" }, ...first(row)));
      for (const [key, text, minor] of columns) {
        const cell = element("td", text(row.fact), { className: minor ?? "" });
        if (key === "state") { cell.className = "state"; cell.dataset.state = row.fact.state; }
        if (row.fact[key] && key !== "state" && key !== "resources") cell.title = row.fact[key];
        line.append(cell);
      }
      made.append(line);
    }
    byId("list").tBodies[0].append(made);
    done = Math.min(until, rows.length);
    byId("more").hidden = done === rows.length;
    byId("more").textContent = `Show more: ${counted(rows.length - done, "row")}`;
  }

  function fill() {
    rows = sorted(gathered());
    done = 0;
    byId("list").tBodies[0].replaceChildren();
    extend();
  }

  function begin(opener) {
    open = opener;
    head();
    byId("together").addEventListener("change", fill);
    byId("more").addEventListener("click", () => extend());
    new IntersectionObserver(([entry]) => { if (entry.isIntersecting) extend(); }, { rootMargin: "300px" }).observe(byId("more"));
    addEventListener("beforeprint", () => extend(Math.max(done, 400)));
  }

  return { begin, show: (found) => { nodes = found; fill(); } };
})();

const detail = (() => {
  function facts(pairs) {
    const made = element("dl");
    for (const [title, text] of pairs.filter(([, text]) => text)) made.append(element("dt", title), element("dd", text));
    return made;
  }

  function labels(node, fact) {
    const every = [...fleet.labelSets[fact.machine], ...fleet.labelSets[fleet.labelsOf[node]]].sort();
    const shown = element("details", "", {}, element("summary", counted(every.length, "label")));
    shown.append(element("ul", "", {}, ...every.map((text) => element("li", "", {}, element("code", text)))));
    return shown;
  }

  function show(node) {
    const fact = fleet.facts[fleet.factOf[node]];
    const state = element("p", states.get(fact.state), { className: "state" });
    state.dataset.state = fact.state;
    byId("detail-name").textContent = fleet.names[node];
    const why = fact.why.map(([about, reason]) => [about, reason.replaceAll("{position}", fleet.positionOf[node])]);
    byId("detail-body").replaceChildren(
      state,
      facts([
        ["Cluster", fact.cluster], ["Policy", facets.policy.text(fact.policy)], ["Pool", fact.pool], ["Group", fact.group],
        ["Driver", fact.driver ?? "none"], ["Device plugin", fact.plugin ?? "none"], ["Resources", fact.resources.join(", ")],
      ]),
      element("h3", "Why"),
      facts(why),
      element("h3", "Machine"),
      facts([
        ["Devices", fact.devices.join("; ") || "none"], ["Kernel", fact.kernel], ["System", fact.os], ["Architecture", fact.architecture],
        ["Kubelet", fact.kubelet], ["Taints", fact.taints.join(", ")],
      ]),
      labels(node, fact),
      element("p", "", { className: "help" }, element("code", `kae explain ${fact.cluster}/${fleet.names[node]}`)),
    );
    byId("detail").showModal();
  }

  byId("detail").addEventListener("click", (event) => { if (event.target === byId("detail")) byId("detail").close(); });
  return { show };
})();
