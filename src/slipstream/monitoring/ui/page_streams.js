// All streams of the account.

import { trouble } from "./copies.js";
import { h } from "./dom.js";
import { ago, bytes, count, rate, short } from "./format.js";
import { streamForm } from "./stream_form.js";
import { badge, button, head, longTable, problem, search } from "./widgets.js";

const kept = { filter: "", sort: "Name", falling: false }; // between two visits

export function page(app) {
  app.every(2000, () => app.catalogue.refresh());
  return { title: "Streams", className: "fill", view: () => view(app) };
}

function view(app) {
  const { catalogue } = app;
  const words = kept.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const items = words.length ? catalogue.streams.filter(({ config }) => {
    const text = `${config.name} ${(config.subjects || []).join(" ")} ${config.description || ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }) : catalogue.streams;
  const name = (info) => info.config.name;
  const columns = [
    { name: "Name", class: "name", sort: name, cell: (info) => [h("strong", {}, name(info)), kindOf(info, catalogue.rates.get(name(info)))] },
    { name: "Subjects", class: "wide", cell: ({ config }) => h("code", {}, (config.subjects || []).join(", ") || (config.mirror ? `mirror of ${config.mirror.name}` : "")) },
    { name: "Messages", class: "number", falling: true, sort: ({ state }) => state.messages, cell: ({ state }) => count(state.messages) },
    { name: "Size", class: "number", falling: true, sort: ({ state }) => state.bytes, cell: ({ state }) => bytes(state.bytes) },
    { name: "Rate", class: "number mid", falling: true, sort: (info) => catalogue.rates.get(name(info)) || 0, cell: (info) => rate(catalogue.rates.get(name(info))) },
    { name: "Consumers", class: "number mid", falling: true, sort: ({ state }) => state.consumer_count, cell: ({ state }) => short(state.consumer_count) },
    { name: "Last message", class: "number wide", falling: true, sort: ({ state }) => state.last_ts, cell: ({ state }) => (state.last_seq ? ago(state.last_ts) : "never") },
  ];
  const shown = items.length === catalogue.streams.length ? count(items.length) : `${count(items.length)} of ${count(catalogue.streams.length)}`;
  return [
    head(["Streams ", h("span", { class: "note" }, catalogue.loaded ? shown : "")], search(app, kept, "Filter streams"), button("New stream", () => streamForm(app, null), { class: "primary" })),
    problem(catalogue.error),
    longTable(app, kept, {
      columns, items, key: name, label: "Streams", className: "streams", link: (info) => `#/stream/${encodeURIComponent(name(info))}`,
      empty: catalogue.loaded ? (words.length ? "No stream has that in its name or subjects." : "There are no streams yet.") : "Reading …",
    }),
  ];
}

export function kindOf({ config, state, cluster }, perSecond) {
  const marks = [];
  const copies = cluster && trouble(cluster, perSecond);
  if (copies) marks.push(badge(copies, "warn"));
  if (state.lost) marks.push(badge("damaged", "bad"));
  if (config.retention === "workqueue") marks.push(badge("work queue"));
  if (config.retention === "interest") marks.push(badge("interest"));
  if (config.mirror) marks.push(badge("mirror"));
  if (config.storage === "memory") marks.push(badge("memory"));
  if (config.sealed) marks.push(badge("sealed"));
  return marks;
}
