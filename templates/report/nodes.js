// The list of nodes: a row for nodes alike, or one for each; and the detail of a node.

const list = (() => {
  const chunk = 40;
  const page = 300;
  const single = data.clusters.length === 1;
  const or = (text) => text || "-";
  /** Return a text, or both texts of what differs before and after a change. */
  const both = (key, text) => (fact, effect) => {
    const [was, now] = [effect.before?.[key], fact[key]];
    return effect.before && was !== now ? `${text(was)} → ${text(now)}` : text(now);
  };
  const image = (value) => (value ? short(value) : "-");
  const columns = [
    ...(changes.size ? [["change", (_, effect) => changes.get(effect.change)]] : []),
    ["state", (fact) => states.get(fact.state), changes.size ? "minor" : ""],
    ...(single ? [] : [["cluster", (fact) => fact.cluster]]),
    ["policy", both("policy", facets.policy.text)],
    ["pool", both("pool", or), "minor"],
    ["driver", both("driver", image)],
    ...(loads.size ? [["loaded", (fact) => or(fact.loaded)]] : []),
    ["plugin", both("plugin", image), "minor"],
    ["resources", (fact) => or(fact.resources.join(", ")), "minor"],
    ...(data.head.hasRecipes ? [["recipes", (fact) => or(fact.recipes.join(", "))]] : []),
    ["kernel", (fact) => fact.kernel || "(unknown)", "minor kernel"],
  ];
  const titles = { loaded: ofKae("Loaded"), resources: "Resources", recipes: "Recipes" };
  let rows = [];
  let done = 0;
  let sort = null;
  let nodes = new Uint8Array();
  let open = () => {};

  // Nodes that look alike in every column share a row; the pairs of facts and effects are few.
  const numbers = new Map();
  const pairs = new Map();
  function rowOf(node) {
    const pair = fleet.factOf[node] * fleet.effects.length + fleet.effectOf[node];
    if (!pairs.has(pair)) {
      const key = JSON.stringify(columns.map(([, text]) => text(factOf(node), effectOf(node))));
      if (!numbers.has(key)) numbers.set(key, numbers.size);
      pairs.set(pair, numbers.get(key));
    }
    return pairs.get(pair);
  }

  function gathered() {
    const together = byId("together").checked;
    const members = new Map();
    for (let node = 0; node < nodes.length; node++) {
      if (!nodes[node]) continue;
      const key = together ? rowOf(node) : node;
      if (members.has(key)) members.get(key).push(node);
      else members.set(key, [node]);
    }
    return [...members.values()].map((own) => ({ nodes: own, fact: factOf(own[0]), effect: effectOf(own[0]) }));
  }

  const ranks = new Map([...changes.keys(), ...states.keys()].map((key, index) => [key, index]));
  const rank = (row) => ranks.get(row.effect.change) ?? ranks.get(row.fact.state === "problem" ? "problem" : "none");
  function sorted(found) {
    const usual = (a, b) => rank(a) - rank(b) || b.nodes.length - a.nodes.length || a.nodes[0] - b.nodes[0];
    if (!sort) return found.sort(usual);
    const [key, way] = sort;
    const text = columns.find(([name]) => name === key)?.[1];
    const compared = (row) => (key === "state" ? ranks.get(row.fact.state) : key === "change" ? rank(row) : text ? text(row.fact, row.effect) : byId("together").checked ? row.nodes.length : row.nodes[0]);
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
        const cell = element("td", text(row.fact, row.effect), { className: minor ?? "" });
        if (key === "state" || key === "change") {
          cell.classList.add("mark");
          cell.dataset.mark = key === "state" ? row.fact.state : row.effect.change;
        } else if (row.fact[key] && !Array.isArray(row.fact[key])) cell.title = row.fact[key];
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
    addEventListener("beforeprint", () => extend(Math.max(done, 200)));
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

  function mark(key, text) {
    const made = element("p", text, { className: "mark" });
    made.dataset.mark = key;
    return made;
  }

  const rows = [
    [ofKae("Policy"), (side) => side.policy ?? "none"], [ofKae("Pool"), (side) => side.pool ?? "none"], ["Group", (side) => side.group ?? "none"],
    [ofKae("Driver"), (side) => side.driver ?? "none"], ["Version", (side) => side.version ?? "none"],
    [ofKae("Device plugin"), (side) => side.plugin ?? "none"], ["Resources", (side) => side.resources.join(", ") || "none"],
  ];

  /** Return what changes for a node: the sentences, and a table of before and after. */
  function change({ change: key, sentences, before, after, cause }) {
    if (key === "same") return [mark(key, changes.get(key))];
    const body = element("tbody");
    for (const [title, text] of rows) {
      const [was, now] = [before, after].map((side) => (side ? text(side) : "not there"));
      const line = element("tr", "", { className: was === now ? "" : "differs" }, element("th", title, { scope: "row" }));
      line.append(element("td", was), was === now ? element("td", "the same", { className: "help" }) : element("td", now));
      body.append(line);
    }
    const head = element("tr", "", {}, ...["", "Before", "After"].map((title) => element(title ? "th" : "td", title, title ? { scope: "col" } : {})));
    return [
      mark(key, changes.get(key)),
      ...sentences.map((number) => element("p", data.head.sentences[number])),
      element("table", "", { className: "sides" }, element("thead", "", {}, head), body),
      element("p", "", { className: "help" }, "Caused by ", element("code", cause)),
      element("h3", "After the change"),
    ];
  }

  function show(node) {
    const fact = factOf(node);
    byId("detail-name").textContent = fleet.names[node];
    const why = fact.why.map(([about, reason]) => [about, reason.replaceAll("{position}", fleet.positionOf[node])]);
    byId("detail-body").replaceChildren(
      ...(changes.size ? change(effectOf(node)) : []),
      mark(fact.state, states.get(fact.state)),
      facts([
        ["Cluster", fact.cluster], [ofKae("Policy"), facets.policy.text(fact.policy)], [ofKae("Pool"), fact.pool], ["Group", fact.group],
        [ofKae("Driver"), fact.driver ?? "none"], [ofKae("Loaded"), fact.loaded], [ofKae("Device plugin"), fact.plugin ?? "none"],
        ["Resources", fact.resources.join(", ")],
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
