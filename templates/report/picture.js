// The picture: a block of cells for each policy in each cluster, each cell a node.

const picture = (() => {
  const palette = 8;
  const total = fleet.names.length;
  const size = total <= 300 ? 18 : total <= 2500 ? 12 : total <= 20000 ? 8 : 5;
  const step = size + (size > 8 ? 2 : 1);
  const blocks = [];
  const home = new Map(); // the block and the place in it of each node
  let shown = new Uint8Array(total).fill(1);
  let colours = new Map();
  let facet = fleet.effects.length > 1 ? "change" : "state"; // Where nothing changes, all cells would be empty.
  let cursor = -1;
  let ink = {};
  let open = () => {};

  const colourNames = ["paper", "ink", "accent", "other", ...states.keys(), ...changes.keys(), ...Array.from({ length: palette }, (_, n) => `c${n}`)];
  function readInk() {
    const style = getComputedStyle(document.documentElement);
    ink = Object.fromEntries(colourNames.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  // The form of a cell says its state, or its change, to those who do not see its colour.
  const forms = {
    problem: "full cross", complete: "full", plugin: "outline lower", driver: "outline upper", removed: "outline minus",
    optOut: "outline slash", unknown: "outline question", none: "outline", gone: "outline cross", loses: "full minus", swaps: "full", gets: "full plus", restarts: "outline lower",
    moves: "outline dot", joins: "outline plus", same: "faint", mayLose: "outline minus", mayGet: "outline upper",
  };

  function stroke(context, x, y, side, lines) {
    context.lineWidth = Math.max(1.3, side / 8);
    context.beginPath();
    for (const [left, top, right, bottom] of lines) {
      context.moveTo(x + left * side, y + top * side);
      context.lineTo(x + right * side, y + bottom * side);
    }
    context.stroke();
  }

  const signs = {
    cross: [[0.25, 0.25, 0.75, 0.75], [0.75, 0.25, 0.25, 0.75]],
    minus: [[0.22, 0.5, 0.78, 0.5]],
    slash: [[0.22, 0.78, 0.78, 0.22]],
    question: [[0.35, 0.35, 0.62, 0.35], [0.62, 0.35, 0.62, 0.52], [0.62, 0.52, 0.5, 0.52], [0.5, 0.52, 0.5, 0.62], [0.5, 0.7, 0.5, 0.78]],
    plus: [[0.2, 0.5, 0.8, 0.5], [0.5, 0.2, 0.5, 0.8]],
  };

  function cell(context, x, y, side, colour, form) {
    const [body, sign] = form.split(" ");
    const half = Math.ceil(side / 2);
    context.fillStyle = context.strokeStyle = colour;
    if (body === "full") context.fillRect(x, y, side, side);
    else {
      context.globalAlpha *= body === "faint" ? 0.45 : 1;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
    }
    if (sign === "lower") context.fillRect(x, y + side - half, side, half);
    if (sign === "upper") context.fillRect(x, y, side, half);
    if (sign === "dot") context.fillRect(x + side * 0.35, y + side * 0.35, side * 0.3, side * 0.3);
    if (!signs[sign] || side < 7) return;
    if (body === "full") context.strokeStyle = ink.paper;
    stroke(context, x, y, side, signs[sign]);
  }

  function look(node) {
    const fact = factOf(node);
    const value = facets[facet].of(fact, effectOf(node));
    const form = facets[facet].keys ? forms[value] : fact.state === "problem" ? "full cross" : "full";
    return { colour: ink[colours.get(value) ?? "other"], form };
  }

  function draw(block) {
    const { canvas, nodes, columns } = block;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [columns * step, Math.ceil(nodes.length / columns) * step];
    const context = canvas.getContext("2d");
    const [wide, high] = [Math.ceil(width * ratio), Math.ceil(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    nodes.forEach((node, place) => {
      const [x, y] = [(place % columns) * step, Math.floor(place / columns) * step];
      const { colour, form } = look(node);
      context.globalAlpha = shown[node] ? 1 : 0.13;
      cell(context, x, y, size, colour, form);
      context.globalAlpha = 1;
      if (node === cursor) {
        context.strokeStyle = ink.ink;
        context.lineWidth = 2;
        context.strokeRect(x, y, size, size);
      }
    });
    block.drawn = true;
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const block = blocks[entry.target.dataset.block];
      block.seen = entry.isIntersecting;
      if (block.seen && !block.drawn) draw(block);
    }
  }, { rootMargin: "600px" });

  /** Draw the blocks that can be seen, now or soon; the others are drawn when they come into view. */
  function redraw(every = false) {
    for (const block of blocks) {
      block.drawn = false;
      if (block.seen || every) draw(block);
    }
  }

  function place(block) {
    const width = byId("blocks").clientWidth || 320;
    const most = Math.max(1, Math.floor(width / step));
    block.columns = Math.min(most, Math.max(Math.ceil(Math.sqrt(block.nodes.length * 3)), Math.min(block.nodes.length, 8)));
    block.canvas.style.width = `${block.columns * step}px`;
    block.canvas.style.height = `${Math.ceil(block.nodes.length / block.columns) * step}px`;
  }

  function build() {
    const clusters = new Map();
    for (let node = 0; node < total; node++) {
      const fact = factOf(node);
      if (!clusters.has(fact.cluster)) clusters.set(fact.cluster, new Map());
      const policies = clusters.get(fact.cluster);
      // A node that leaves is shown where it was.
      const policy = (fact.state === "gone" ? effectOf(node).before.policy : fact.policy) ?? "";
      if (!policies.has(policy)) policies.set(policy, []);
      policies.get(policy).push(node);
    }
    const ranks = new Map([...changes.keys()].map((key, index) => [key, index]));
    const rank = (node) => ranks.get(effectOf(node).change) ?? 0;
    const pool = (node) => factOf(node).pool ?? "";
    const order = (a, b) => rank(a) - rank(b) || (pool(a) === pool(b) ? a - b : pool(a) < pool(b) ? -1 : 1);
    for (const [cluster, policies] of clusters) {
      const section = element("div", "", { className: "cluster" });
      const number = [...policies.values()].reduce((sum, nodes) => sum + nodes.length, 0);
      section.append(element("h3", cluster, {}, element("small", counted(number, "node"))));
      const row = section.appendChild(element("div"));
      for (const policy of [...policies.keys()].sort((a, b) => (a === "") - (b === "") || (a < b ? -1 : 1))) {
        const nodes = policies.get(policy).sort(order);
        row.append(figure(cluster, policy, nodes));
      }
      byId("blocks").append(section);
    }
  }

  function figure(cluster, policy, nodes) {
    const problems = nodes.filter((node) => factOf(node).state === "problem").length;
    const name = policy || (data.head.hasRecipes ? "(no KAE policy)" : "(no policy)");
    const canvas = element("canvas", "", { role: "application", tabIndex: blocks.length ? -1 : 0 });
    canvas.setAttribute("aria-roledescription", "map of nodes");
    canvas.setAttribute("aria-describedby", "help");
    canvas.setAttribute("aria-label", `${name} in ${cluster}: ${counted(nodes.length, "node")}, ${problems} with problems`);
    canvas.dataset.block = blocks.length;
    const made = element("figure", "", {}, element("figcaption", name, {}, element("small", many.format(nodes.length))), canvas);
    const block = { canvas, nodes, figure: made, columns: 1, drawn: false, seen: false };
    nodes.forEach((node, index) => home.set(node, [blocks.length, index]));
    blocks.push(block);
    canvas.addEventListener("pointermove", (event) => hint(event, under(block, event)));
    canvas.addEventListener("pointerleave", () => hint(null, -1));
    canvas.addEventListener("click", (event) => {
      const node = under(block, event);
      if (node >= 0) { moveTo(node); open(node); }
    });
    canvas.addEventListener("keydown", (event) => press(event, block));
    canvas.addEventListener("focus", () => { if (home.get(cursor)?.[0] !== blocks.indexOf(block)) moveTo(nodes[0]); });
    seen.observe(canvas);
    return made;
  }

  function under(block, event) {
    const [column, row] = [Math.floor(event.offsetX / step), Math.floor(event.offsetY / step)];
    return column < block.columns ? block.nodes[row * block.columns + column] ?? -1 : -1;
  }

  function said(node) {
    const fact = factOf(node);
    const value = facet === "state" ? "" : `, ${facets[facet].text(facets[facet].of(fact, effectOf(node)))}`;
    return `${fleet.names[node]}: ${facets.policy.text(fact.policy)}${fact.pool && fact.pool !== fact.policy ? `, pool ${fact.pool}` : ""}, ${states.get(fact.state)}${value}`;
  }

  function hint(event, node) {
    const tip = byId("tip");
    tip.hidden = node < 0 || node === undefined;
    if (tip.hidden) return;
    tip.textContent = said(node);
    const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    tip.style.transform = `translate(${Math.max(4, left)}px, ${event.clientY + 18}px)`;
  }

  function moveTo(node) {
    const before = home.get(cursor);
    cursor = node;
    const [index] = home.get(node);
    blocks.forEach((block, number) => { block.canvas.tabIndex = number === index ? 0 : -1; });
    if (before && before[0] !== index) draw(blocks[before[0]]);
    draw(blocks[index]);
    byId("cell").textContent = said(node);
  }

  function press(event, block) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: block.columns, ArrowUp: -block.columns };
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(cursor); return; }
    const [number, index] = home.get(cursor) ?? [blocks.indexOf(block), 0];
    let target = event.key === "Home" ? 0 : event.key === "End" ? block.nodes.length - 1 : index + moves[event.key];
    if (Number.isNaN(target)) return;
    event.preventDefault();
    let next = blocks[number];
    if (target < 0 || target >= next.nodes.length) {
      const way = target < 0 ? -1 : 1;
      let other = number + way;
      while (blocks[other]?.figure.hidden) other += way;
      if (!blocks[other]) return;
      next = blocks[other];
      target = way < 0 ? next.nodes.length - 1 : 0;
    }
    moveTo(next.nodes[target]);
    next.canvas.focus();
  }

  /** Colour the cells by a facet, the most frequent values first. */
  function colourBy(key) {
    facet = key;
    const counts = new Map();
    for (let node = 0; node < total; node++) {
      const value = facets[key].of(factOf(node), effectOf(node));
      counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    const named = facets[key].keys;
    const ranked = named ? [...named.keys()].filter((value) => counts.has(value)) : [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
    colours = new Map(ranked.map((value, n) => [value, named ? value : value === "" || n >= palette ? "other" : `c${n}`]));
    legend(ranked, counts);
    redraw();
  }

  function legend(ranked, counts) {
    const list = byId("legend");
    list.replaceChildren();
    const most = facets[facet].keys ? ranked.length : palette;
    for (const value of ranked.slice(0, most)) {
      const swatch = element("canvas", "", { width: 28, height: 28, "aria-hidden": "true" });
      swatch.style.width = swatch.style.height = "14px";
      const context = swatch.getContext("2d");
      context.scale(2, 2);
      cell(context, 0, 0, 14, ink[colours.get(value)], facets[facet].keys ? forms[value] : "full");
      const button = element("button", "", { type: "button" }, swatch, facets[facet].text(value), element("small", many.format(counts.get(value))));
      button.dataset.value = value;
      list.append(element("li", "", {}, button));
    }
    if (ranked.length > most) list.append(element("li", `and ${counted(ranked.length - most, "other")}`, { className: "help" }));
  }

  function show(nodes, filter) {
    shown = nodes;
    for (const block of blocks) {
      block.figure.hidden = !block.nodes.some((node) => nodes[node]);
    }
    for (const section of document.querySelectorAll(".cluster")) {
      section.hidden = !section.querySelector("figure:not([hidden])");
    }
    for (const button of document.querySelectorAll("#legend button")) {
      button.setAttribute("aria-pressed", String(filter.get(facet) === button.dataset.value));
    }
    redraw();
  }

  function begin(opener) {
    open = opener;
    readInk();
    build();
    blocks.forEach(place);
    for (const [key, { title }] of Object.entries(facets)) byId("colour").append(new Option(title, key));
    byId("colour").value = facet;
    byId("colour").addEventListener("change", (event) => colourBy(event.target.value));
    colourBy(facet);
    let width = byId("blocks").clientWidth;
    new ResizeObserver(() => {
      if (byId("blocks").clientWidth === width) return;
      width = byId("blocks").clientWidth;
      blocks.forEach(place);
      redraw();
    }).observe(byId("blocks"));
    const repaint = (every) => { readInk(); colourBy(facet); redraw(every); };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint(false));
    addEventListener("beforeprint", () => { document.documentElement.classList.add("printing"); repaint(true); });
    addEventListener("afterprint", () => { document.documentElement.classList.remove("printing"); repaint(false); });
  }

  return { begin, show, facet: () => facet };
})();
