"use strict";
// The fleet as columns: a node is a number, and what it shares with others is a fact.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const states = new Map(Object.entries(data.head.states));
const loads = new Map(Object.entries(data.head.loads)); // empty where no label tells
const changes = new Map(Object.entries(data.head.changes)); // empty without a change
const unchanged = { change: "same", sentences: [] };
const many = new Intl.NumberFormat("en");
const counted = (number, noun) => `${many.format(number)} ${noun}${number === 1 ? "" : "s"}`;
const short = (image) => {
  const [name, digest] = image.slice(image.lastIndexOf("/") + 1).split("@sha256:");
  return digest ? `${name}@${digest.slice(0, 12)}` : name;
};

const fleet = { facts: [], labelSets: [], names: [], factOf: [], labelsOf: [], positionOf: [], effects: [unchanged], effectOf: [] };

for (const cluster of data.clusters) {
  const [facts, sets, effects] = [fleet.facts.length, fleet.labelSets.length, fleet.effects.length - 1];
  fleet.effects.push(...cluster.effects);
  for (const fact of cluster.facts) {
    const recipes = fact.why.map(([about, line]) => about === "recipe" && /^(.+): policy '/.exec(line)?.[1]).filter(Boolean);
    fleet.facts.push({ ...fact, recipes, cluster: cluster.name, machine: fact.machine + sets });
  }
  for (const set of cluster.labelSets) fleet.labelSets.push(set.map((number) => cluster.labelTexts[number]));
  for (let node = 0; node < cluster.names.length; node++) {
    fleet.names.push(cluster.names[node]);
    fleet.factOf.push(cluster.alike[node] + facts);
    fleet.labelsOf.push(cluster.labels[node] + sets);
    fleet.positionOf.push(cluster.positions[node] ?? "");
    fleet.effectOf.push(cluster.effectOf[node] ? cluster.effectOf[node] + effects : 0);
  }
}

// Each way to tell nodes apart: its title, the value of a fact (and effect), and the text of a value. Facets with
// `keys` have fixed values, in the order of the legend.
const ofKae = (title) => (data.head.hasRecipes ? `KAE ${title[0].toLowerCase()}${title.slice(1)}` : title);
const facets = {
  cluster: { title: "Cluster", of: (fact) => fact.cluster, text: (value) => value },
  policy: { title: ofKae("Policy"), of: (fact) => fact.policy ?? "", text: (value) => value || "(none)" },
  pool: { title: ofKae("Pool"), of: (fact) => fact.pool ?? "", text: (value) => value || "(none)" },
  kernel: { title: "Kernel", of: (fact) => fact.kernel, text: (value) => value || "(unknown)" },
  driver: { title: ofKae("Driver"), of: (fact) => fact.driver ?? "", text: (value) => (value ? short(value) : "(none)") },
  plugin: { title: ofKae("Device plugin"), of: (fact) => fact.plugin ?? "", text: (value) => (value ? short(value) : "(none)") },
  state: { title: "State", of: (fact) => fact.state, text: (value) => states.get(value), keys: states },
};
if (loads.size) facets.loads = { title: "Loaded driver", of: (fact) => fact.loads, text: (value) => loads.get(value) };
const ofEffect = { title: "Change", of: (_, effect) => effect.change, text: (value) => changes.get(value), keys: changes };
if (changes.size) facets.change = ofEffect;

const factOf = (node) => fleet.facts[fleet.factOf[node]];
const effectOf = (node) => fleet.effects[fleet.effectOf[node]];

const sought = (texts) => texts.join("\n").toLowerCase();
for (const fact of fleet.facts) {
  const shown = Object.values(facets).map((facet) => (facet === ofEffect ? "" : facet.text(facet.of(fact))));
  fact.words = sought([...shown, fact.group ?? "", fact.driver ?? "", fact.plugin ?? "", fact.os, fact.architecture,
    fact.loaded ?? "", ...fact.resources, ...fact.recipes, ...fact.devices, ...fact.taints, ...fleet.labelSets[fact.machine]]);
}
fleet.labelWords = fleet.labelSets.map(sought);
fleet.nameWords = fleet.names.map((name) => name.toLowerCase());

/** Return 1 for each node that meets the filter, which URLSearchParams hold, and 0 for any other. */
function matching(filter) {
  const words = (filter.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = Object.entries(facets).filter(([key, facet]) => filter.has(key) && facet !== ofEffect);
  const [why, effect] = [filter.get("why"), filter.get("effect")];
  // What many nodes share is judged once: bit n says that it holds word n.
  const held = (text) => words.reduce((bits, word, n) => (text.includes(word) ? bits | (1 << n % 31) : bits), 0);
  const all = words.reduce((bits, _, n) => bits | (1 << n % 31), 0);
  const isWanted = fleet.facts.map((fact) =>
    wanted.every(([key, facet]) => facet.of(fact) === filter.get(key)) &&
    (why === null || fact.why.some(([, reason]) => reason === why)));
  const isEffect = fleet.effects.map((one) =>
    (effect === null || one.sentences.includes(Number(effect))) &&
    (!filter.has("change") || one.change === filter.get("change")));
  const inFact = fleet.facts.map((fact) => held(fact.words));
  const inLabels = fleet.labelWords.map(held);
  return Uint8Array.from(fleet.names, (_, node) => {
    if (!isWanted[fleet.factOf[node]] || !isEffect[fleet.effectOf[node]]) return 0;
    if (!all) return 1;
    const bits = inFact[fleet.factOf[node]] | inLabels[fleet.labelsOf[node]];
    return Number(bits === all || (bits | held(fleet.nameWords[node])) === all);
  });
}

/** Return a new element with a text and properties; no text is ever read as HTML. */
function element(tag, text = "", properties = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== "") made.textContent = text;
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}
