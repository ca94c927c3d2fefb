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
  let facet = "state";
  let cursor = -1;
  let ink = {};
  let open = () => {};

  const colourNames = ["paper", "ink", "accent", "other", ...states.keys(), ...Array.from({ length: palette }, (_, n) => `c${n}`)];
  function readInk() {
    const style = getComputedStyle(document.documentElement);
    ink = Object.fromEntries(colourNames.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  /** Draw a cell; its form says the state to those who do not see its colour. */
  function cell(context, x, y, side, colour, form) {
    context.fillStyle = context.strokeStyle = colour;
    const half = Math.ceil(side / 2);
    if (form === "none" || form === "removed" || form === "plugin" || form === "driver") {
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
      if (form === "removed") context.fillRect(x + 2, y + half - 1, side - 4, Math.max(1, side / 6));
      if (form === "plugin") context.fillRect(x, y + side - half, side, half);
      if (form === "driver") context.fillRect(x, y, side, half);
      return;
    }
    context.fillRect(x, y, side, side);
    if (form !== "problem" || side < 7) return;
    context.strokeStyle = ink.paper;
    context.lineWidth = Math.max(1.3, side / 8);
    const edge = side * 0.25;
    context.beginPath();
    context.moveTo(x + edge, y + edge);
    context.lineTo(x + side - edge, y + side - edge);
    context.moveTo(x + side - edge, y + edge);
    context.lineTo(x + edge, y + side - edge);
    context.stroke();
  }

  function look(fact) {
    const value = facets[facet].of(fact);
    return { colour: ink[colours.get(value) ?? "other"], form: fact.state === "problem" || facet === "state" ? fact.state : "full" };
  }

  function draw(block) {
    const { canvas, nodes, columns } = block;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [columns * step, Math.ceil(nodes.length / columns) * step];
    canvas.width = Math.ceil(width * ratio);
    canvas.height = Math.ceil(height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    nodes.forEach((node, place) => {
      const [x, y] = [(place % columns) * step, Math.floor(place / columns) * step];
      const { colour, form } = look(fleet.facts[fleet.factOf[node]]);
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
      const fact = fleet.facts[fleet.factOf[node]];
      if (!clusters.has(fact.cluster)) clusters.set(fact.cluster, new Map());
      const policies = clusters.get(fact.cluster);
      const policy = fact.policy ?? "";
      if (!policies.has(policy)) policies.set(policy, []);
      policies.get(policy).push(node);
    }
    const order = (node) => fleet.facts[fleet.factOf[node]].pool ?? "";
    for (const [cluster, policies] of clusters) {
      const section = element("div", "", { className: "cluster" });
      const number = [...policies.values()].reduce((sum, nodes) => sum + nodes.length, 0);
      section.append(element("h3", cluster, {}, element("small", counted(number, "node"))));
      const row = section.appendChild(element("div"));
      for (const policy of [...policies.keys()].sort((a, b) => (a === "") - (b === "") || (a < b ? -1 : 1))) {
        const nodes = policies.get(policy).sort((a, b) => order(a) === order(b) ? a - b : order(a) < order(b) ? -1 : 1);
        row.append(figure(cluster, policy, nodes));
      }
      byId("blocks").append(section);
    }
  }

  function figure(cluster, policy, nodes) {
    const problems = nodes.filter((node) => fleet.facts[fleet.factOf[node]].state === "problem").length;
    const name = policy || "(no policy)";
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
    const fact = fleet.facts[fleet.factOf[node]];
    const value = facet === "state" ? "" : `, ${facets[facet].text(facets[facet].of(fact))}`;
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
    for (const number of fleet.factOf) {
      const value = facets[key].of(fleet.facts[number]);
      counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    const named = key === "state" ? states : null;
    const ranked = named ? [...named.keys()].filter((value) => counts.has(value)) : [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
    colours = new Map(ranked.map((value, n) => [value, named ? value : value === "" || n >= palette ? "other" : `c${n}`]));
    legend(ranked, counts);
    redraw();
  }

  function legend(ranked, counts) {
    const list = byId("legend");
    list.replaceChildren();
    const most = facet === "state" ? ranked.length : palette;
    for (const value of ranked.slice(0, most)) {
      const swatch = element("canvas", "", { width: 28, height: 28, "aria-hidden": "true" });
      swatch.style.width = swatch.style.height = "14px";
      const context = swatch.getContext("2d");
      context.scale(2, 2);
      cell(context, 0, 0, 14, ink[colours.get(value)], facet === "state" ? value : "full");
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
