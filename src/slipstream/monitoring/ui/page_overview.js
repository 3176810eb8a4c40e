// The server at a glance: traffic, round trips, storage, what happens to streams as it happens.

import { h } from "./dom.js";
import { bytes, clock, count, millis, plural, rate } from "./format.js";
import { chart, head, History, problem, Rate, tile } from "./widgets.js";

const EVENTS_MAX = 200;
const SAMPLES_MAX = 300;

export function page(app) {
  const state = {
    varz: null, account: null, health: null, error: null, events: [], eventsDenied: "",
    into: new Rate(), out: new Rate(), intoBytes: new Rate(), outBytes: new Rate(), rtts: [], rtt: new History(), stored: new History(), sync: new History(), syncs: null,
  };
  const happened = (msg) => {
    state.events.unshift(eventOf(msg));
    if (state.events.length > EVENTS_MAX) state.events.pop();
    app.redraw();
  };
  const denied = (text) => {
    state.eventsDenied = text;
    app.redraw();
  };
  // Not the audit of the API: it would tell of the pages' own questions.
  const ends = ["STREAM", "CONSUMER"].map((kind) => app.nats.subscribe(`$JS.EVENT.ADVISORY.${kind}.>`, happened, denied));
  app.every(2000, () => read(app, state));
  // What changes slowly is asked for less often: each question costs the server half a millisecond.
  app.every(6000, () => readSyncs(app, state));
  app.every(10000, async () => {
    state.health = await fetch("../healthz").then((answer) => answer.json()).catch(() => null);
    app.redraw();
  });
  app.every(2000, async () => {
    const took = await app.nats.rtt().catch(() => null);
    // The first one waits for the page to be drawn.
    if (took === null || !state.drawn) return (state.drawn = true);
    state.rtts.push(took);
    if (state.rtts.length > SAMPLES_MAX) state.rtts.shift();
    state.rtt.add(took);
    app.redraw();
  });
  app.every(5000, () => app.catalogue.refresh());
  return { title: "Overview", className: "overview", leave: () => ends.forEach((end) => end()), view: () => view(app, state) };
}

/** What the monitoring port tells everybody who gets to this page. */
function told(name) {
  return fetch(`../${name}`).then((answer) => (answer.ok ? answer.json() : null)).catch(() => null);
}

async function readSyncs(app, state) {
  const syncs = (await told("debug/vars"))?.jetstream_syncs;
  if (!syncs) return;
  const before = state.syncs;
  // Of those since the last look; without any, the time of before stays.
  if (before && syncs.count > before.count) state.sync.add(((syncs.total_seconds - before.total_seconds) / (syncs.count - before.count)) * 1000);
  else if (!before && syncs.count) state.sync.add(syncs.last_seconds * 1000);
  state.syncs = syncs;
  app.redraw();
}

async function read(app, state) {
  // ... and what this user's account has.
  const [varz, account] = await Promise.all([told("varz"), app.js.api("INFO").catch((error) => ({ failed: error }))]);
  state.varz = varz;
  state.error = account.failed || null;
  state.account = account.failed ? null : account;
  if (varz) {
    state.into.add(varz.in_msgs);
    state.out.add(varz.out_msgs);
    state.intoBytes.add(varz.in_bytes);
    state.outBytes.add(varz.out_bytes);
    if (varz.jetstream?.stats) state.stored.add(varz.jetstream.stats.storage);
  }
  app.redraw();
}

export function quantile(values, part) {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
}

function view(app, state) {
  const { varz, account } = state;
  const lost = app.catalogue.streams.filter((info) => info.state.lost);
  const jetstream = varz?.jetstream;
  const limit = jetstream?.config?.max_storage;
  return [
    head("Overview", varz && h("span", { class: "note" }, `up ${varz.uptime} · ${varz.git_commit?.replace("-", " ") || ""} · NATS ${varz.version}`)),
    damageView(state, lost),
    h("section", { class: "tiles" },
      tile("Messages in", rate(state.into.now), rate(state.intoBytes.now === undefined ? NaN : state.intoBytes.now / 1024, " KiB/s"), { chart: chart(state.into.history.points, { format: rate, label: "in" }) }),
      tile("Messages out", rate(state.out.now), rate(state.outBytes.now === undefined ? NaN : state.outBytes.now / 1024, " KiB/s"), { chart: chart(state.out.history.points, { format: rate, label: "out" }) }),
      tile("Round trip", millis(quantile(state.rtts, 0.5)), `p99 ${millis(quantile(state.rtts, 0.99))}`, { chart: chart(state.rtt.points, { format: millis, label: "from this page" }) }),
      tile("Stored", bytes(jetstream?.stats?.storage ?? account?.storage), limit > 0 ? `of ${bytes(limit)}` : "", { chart: chart(state.stored.points, { format: bytes, label: "on disk" }) })),
    h("section", { class: "tiles small" },
      tile("Streams", count(account?.streams), ""), tile("Consumers", count(account?.consumers)),
      tile("Sync", state.sync.points.length ? millis(state.sync.points.at(-1)[1]) : "–", state.syncs ? plural(state.syncs.count, "sync") : ""),
      tile("Connections", count(varz?.connections), varz ? plural(varz.subscriptions, "subscription") : ""),
      tile("Memory", bytes(varz?.mem)), tile("Processor", varz ? `${varz.cpu} %` : "–", varz ? plural(varz.cores, "core") : ""),
      tile("Slow consumers", count(varz?.slow_consumers), "", { class: varz?.slow_consumers ? "warn" : "" }),
      tile("API errors", count(account?.api?.errors), account ? `of ${count(account.api?.total)}` : "")),
    problem(state.error),
    h("div", { class: "columns" },
      h("section", { class: "card" }, h("h2", {}, "Busiest streams"), busiest(app)),
      h("section", { class: "card" }, h("h2", {}, "What happens"), eventsView(state))),
  ];
}

function damageView(state, lost) {
  const said = [];
  if (lost.length) said.push(`Damage was found: ${lost.map((info) => `${info.config.name} lost ${plural(info.state.lost.msgs?.length ?? 0, "message")}`).join(", ")}. The log names the records.`);
  if (state.health && state.health.status !== "ok") said.push(`The server says of itself: ${state.health.error || state.health.status}.`);
  return said.length ? said.map((text) => h("p", { class: "notice bad", role: "alert" }, text)) : null;
}

function busiest(app) {
  const { catalogue } = app;
  if (catalogue.error) return problem(catalogue.error);
  const rows = [...catalogue.streams].sort((one, other) => (catalogue.rates.get(other.config.name) || 0) - (catalogue.rates.get(one.config.name) || 0) || other.state.bytes - one.state.bytes).slice(0, 8);
  if (!rows.length) return h("p", { class: "note" }, catalogue.loaded ? "There are no streams yet." : "…");
  return h("table", { class: "list" }, h("thead", {}, h("tr", {}, ["Stream", "Rate", "Messages", "Size"].map((name, at) => h("th", { scope: "col", class: at ? "number" : "" }, name)))), h("tbody", {}, rows.map(({ config, state }) => h("tr", { key: config.name },
    h("td", {}, h("a", { href: `#/stream/${encodeURIComponent(config.name)}` }, config.name)),
    h("td", { class: "number" }, rate(catalogue.rates.get(config.name))),
    h("td", { class: "number" }, `${count(state.messages)}`),
    h("td", { class: "number" }, bytes(state.bytes))))));
}

function eventsView(state) {
  if (state.eventsDenied) return h("p", { class: "note" }, state.eventsDenied);
  if (!state.events.length) return h("p", { class: "note" }, "Advisories appear here as they happen: streams and consumers that are made, changed or deleted, messages given up, damage.");
  return h("ol", { class: "events" }, state.events.map((event) => h("li", { key: event.id, class: event.kind }, h("time", {}, clock(event.time)), h("span", {}, event.text))));
}

const EVENTS = {
  stream_action: (event) => `Stream ${event.stream}: ${event.action}`,
  consumer_action: (event) => `Consumer ${event.consumer} of ${event.stream}: ${event.action}`,
  consumer_pause: (event) => `Consumer ${event.consumer} of ${event.stream}: ${event.paused ? `paused until ${event.pause_until}` : "resumed"}`,
  max_deliver: (event) => `${event.consumer} of ${event.stream} gave up message ${count(event.stream_seq)} after ${plural(event.deliveries, "delivery", "deliveries")}`,
  terminated: (event) => `${event.consumer} of ${event.stream} ended message ${count(event.stream_seq)}${event.reason ? `: ${event.reason}` : ""}`,
  nak: (event) => `${event.consumer} of ${event.stream} refused message ${count(event.stream_seq)}`,
  snapshot_create: (event) => `Backup of ${event.stream} began`,
  snapshot_complete: (event) => `Backup of ${event.stream} is done`,
  restore_create: (event) => `Restoring ${event.stream}`,
  restore_complete: (event) => `${event.stream} is restored`,
};

let events = 0;

/** An advisory in a line. */
export function eventOf(msg) {
  let event = {};
  try {
    event = msg.json();
  } catch {
    // Anybody may publish there who may publish at all.
  }
  const type = String(event.type || "").split(".").at(-1);
  const text = (EVENTS[type] || (() => `${type || msg.subject}${event.stream ? ` of ${event.stream}` : ""}`))(event);
  const kind = ["max_deliver", "terminated"].includes(type) || /damage|lost|quorum/.test(type) ? "bad" : "";
  return { id: ++events, text, kind, time: event.timestamp || Date.now() };
}

