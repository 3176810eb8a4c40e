// The consumers of a stream: who is behind, what is in flight, and why nothing comes.

import { h } from "./dom.js";
import { ago, count, duration, moment, plural, rate, readCount, readDuration } from "./format.js";
import { badge, button, chart, choice, confirmTyped, facts, field, History, longTable, openForm, problem, Rate, search } from "./widgets.js";
import { consumerWords, whyNothing } from "./words.js";

const READ_MS = 2000;
const KINDS = { stuck: "bad", waiting: "warn", idle: "ok" };

export function consumersTab(app, stream, query) {
  const state = { consumers: null, error: null, filter: "", list: {}, chosen: query.get("consumer") || "", past: new Map(), why: null, mayAsk: true };
  app.every(READ_MS, async () => {
    try {
      state.consumers = await app.js.consumers(stream.name);
      state.error = null;
      for (const info of state.consumers) remember(state, info);
      if (state.chosen && state.mayAsk) await askWhy(app, stream, state);
    } catch (error) {
      state.error = error;
    }
    app.redraw();
  });
  return { view: () => view(app, stream, state) };
}

/** What the server says of the chosen one. A user without the right to ask sees what its figures tell. */
async function askWhy(app, stream, state) {
  const name = state.chosen;
  try {
    const { causes } = await app.js.api(`CONSUMER.WHY.${stream.name}.${name}`);
    state.why = { name, causes };
  } catch (error) {
    state.why = null;
    state.mayAsk = error.kind !== "denied";
  }
}

function whyOf(state, stream, info) {
  if (state.why?.name !== info.name) return whyNothing(info, stream.info?.state);
  const said = state.why.causes.map(({ kind, text }) => [KINDS[kind] || "", text]);
  return said.length ? said : [["ok", "Nothing is in its way."]];
}

function remember(state, info) {
  let past = state.past.get(info.name);
  if (!past) state.past.set(info.name, (past = { lag: new History(), flight: new History(), acks: new Rate(), deliveries: new Rate() }));
  past.lag.add(info.num_pending);
  past.flight.add(info.num_ack_pending);
  past.acks.add(info.ack_floor.consumer_seq);
  past.deliveries.add(info.delivered.consumer_seq);
}

function stateOf(info) {
  const [[kind]] = whyNothing(info, null);
  if (info.paused) return badge("paused", "warn");
  if (kind === "bad") return badge("stuck", "bad");
  return info.num_pending ? badge("behind", "warn") : badge("up to date", "ok");
}

function view(app, stream, state) {
  const all = state.consumers || [];
  const words = state.filter.toLowerCase();
  const items = words ? all.filter((info) => info.name.toLowerCase().includes(words)) : all;
  const columns = [
    { name: "Name", class: "name", sort: (info) => info.name, cell: (info) => [h("strong", {}, info.name), info.config.deliver_subject ? badge("push") : null] },
    { name: "State", class: "mid", cell: stateOf },
    { name: "Behind", class: "number", falling: true, sort: (info) => info.num_pending, cell: (info) => count(info.num_pending) },
    { name: "In flight", class: "number", falling: true, sort: (info) => info.num_ack_pending, cell: (info) => count(info.num_ack_pending) },
    { name: "Again", class: "number wide", falling: true, sort: (info) => info.num_redelivered, cell: (info) => count(info.num_redelivered) },
    { name: "Pulling", class: "number wide", falling: true, sort: (info) => info.num_waiting, cell: (info) => (info.config.deliver_subject ? (info.push_bound ? "bound" : "–") : count(info.num_waiting)) },
    { name: "Rate", class: "number mid", cell: (info) => rate(state.past.get(info.name)?.deliveries.now) },
  ];
  const chosen = all.find((info) => info.name === state.chosen);
  return [
    h("div", { class: "bar" }, search(app, state, "Filter consumers"), h("span", { class: "note" }, state.consumers ? plural(all.length, "consumer") : "Reading …"),
      button("New consumer", () => consumerForm(app, stream, null), { class: "primary" })),
    problem(state.error),
    h("div", { class: `split ${chosen ? "both" : ""}` },
      h("div", { class: "left" }, longTable(app, Object.assign(state.list, { chosen: state.chosen }), {
        columns, items, key: (info) => info.name, label: "Consumers", className: "consumers", empty: state.consumers ? "There are no consumers." : "Reading …",
        open: (info) => {
          state.chosen = info.name;
          app.redraw();
          app.tick(true);
        },
      })),
      chosen && detail(app, stream, state, chosen)),
  ];
}

function detail(app, stream, state, info) {
  const { config } = info;
  const past = state.past.get(info.name);
  const paused = info.paused;
  return h("aside", { class: "detail", key: info.name, "aria-label": `Consumer ${info.name}` },
    h("div", { class: "bar" }, h("h2", {}, info.name), stateOf(info), button("Close", () => {
      state.chosen = "";
      app.redraw();
    }, { class: "quiet" })),
    h("ul", { class: "why" }, whyOf(state, stream, info).map(([kind, text]) => h("li", { class: kind }, text))),
    h("div", { class: "columns" },
      chart(past.lag.points, { label: `behind ${count(info.num_pending)}` }),
      chart(past.flight.points, { label: `in flight ${count(info.num_ack_pending)}` })),
    facts([
      ["Delivered", `${count(info.delivered.consumer_seq)} · up to ${count(info.delivered.stream_seq)}${info.delivered.last_active ? ` · ${ago(info.delivered.last_active)}` : ""}`],
      ["Acknowledged", `up to ${count(info.ack_floor.stream_seq)}${info.ack_floor.last_active ? ` · ${ago(info.ack_floor.last_active)}` : ""}`],
      ["Rate", `${rate(past.deliveries.now)} out, ${rate(past.acks.now)} acknowledged`], ["Made", moment(info.created)],
      paused && ["Paused for", info.pause_remaining ? duration(info.pause_remaining) : moment(config.pause_until)]]),
    h("div", { class: "words" }, h("ul", {}, consumerWords(config).map((text) => h("li", {}, text)))),
    Object.keys(config.metadata || {}).length > 0 && h("details", {}, h("summary", {}, "Metadata"), facts(Object.entries(config.metadata))),
    h("div", { class: "bar" },
      paused ? button("Resume", () => pause(app, stream, info, null)) : button("Pause", () => pauseForm(app, stream, info)),
      button("Change", () => consumerForm(app, stream, config)), button("Reset", () => resetForm(app, stream, info)),
      button("Delete", () => remove(app, stream, state, info), { class: "danger" })));
}

function pause(app, stream, info, until) {
  const body = until ? { pause_until: until } : {};
  return app.attempt(async () => {
    await app.js.api(`CONSUMER.PAUSE.${stream.name}.${info.name}`, body);
    app.tick(true);
  }, until ? `${info.name} is paused` : `${info.name} goes on`);
}

function pauseForm(app, stream, info) {
  openForm(app, {
    title: `Pause ${info.name}`, values: { time: "1h" }, action: "Pause",
    body: (given) => [h("p", {}, "Nothing is delivered until then. What was delivered can still be acknowledged."), field(app, given, "time", "For how long", { autofocus: true, placeholder: "1h" })],
    submit: async (given) => {
      const ns = readDuration(given.time);
      if (!ns) throw new Error("Say for how long.");
      await app.js.api(`CONSUMER.PAUSE.${stream.name}.${info.name}`, { pause_until: new Date(Date.now() + ns / 1e6).toISOString() });
      app.toast(`${info.name} is paused`);
      app.tick(true);
    },
  });
}

function resetForm(app, stream, info) {
  confirmTyped(app, {
    title: `Reset ${info.name}`, name: info.name, action: "Reset", values: { seq: "" },
    text: "It forgets what is in flight, and goes on from where its acknowledgements end, or from a sequence. Messages may be delivered a second time.",
    body: (given) => field(app, given, "seq", "From sequence", { inputmode: "numeric", placeholder: "where its acknowledgements end" }),
    submit: async (given) => {
      const body = given.seq.trim() ? { seq: readCount(given.seq) } : {};
      await app.js.api(`CONSUMER.RESET.${stream.name}.${info.name}`, body);
      app.toast(`${info.name} begins again`);
      app.tick(true);
    },
  });
}

function remove(app, stream, state, info) {
  confirmTyped(app, {
    title: `Delete ${info.name}`, name: info.name, action: "Delete", text: "What it has delivered and acknowledged is forgotten. The messages stay in the stream, unless it is a work queue's last word on them.",
    submit: async () => {
      await app.js.api(`CONSUMER.DELETE.${stream.name}.${info.name}`);
      state.chosen = "";
      app.toast(`${info.name} is deleted`);
      app.tick(true);
    },
  });
}

// --- made and changed -------------------------------------------------------------------------------------------------

function consumerForm(app, stream, config) {
  const values = config ? fromConfig(config) : {
    name: "", filter: "", deliver_policy: "all", start: "", ack_policy: "explicit", ack_wait: "30s", max_deliver: "", max_ack_pending: "1000", deliver_subject: "", dlq: "", description: "",
  };
  values.view = "fields";
  openForm(app, {
    title: config ? `Change ${config.name || config.durable_name}` : `New consumer of ${stream.name}`, values, action: config ? "Save" : "Create", wide: true,
    body: (given) => [
      choice(app, given, "view", [["fields", "Settings"], ["json", "JSON"]], () => changeView(app, given, config)),
      given.view === "json" ? field(app, given, "json", "Configuration", { rows: 20, class: "code" }) : fields(app, given, config),
    ],
    submit: async (given) => {
      const wanted = given.view === "json" ? JSON.parse(given.json) : toConfig(given, config);
      const name = wanted.name || wanted.durable_name;
      await app.js.api(`CONSUMER.CREATE.${stream.name}.${name}`, { stream_name: stream.name, config: wanted, action: config ? "update" : "create" });
      app.toast(config ? `${name} is changed` : `${name} is made`);
      app.tick(true);
    },
  });
}

function fields(app, given, config) {
  const old = Boolean(config);
  return h("div", { class: "form" },
    field(app, given, "name", "Name", { disabled: old, autofocus: !old, required: true }),
    field(app, given, "filter", "Only subjects", { placeholder: "all", note: "Separated by commas." }),
    field(app, given, "description", "Description"),
    field(app, given, "deliver_policy", "Begins", { disabled: old, options: [["all", "with the first message"], ["new", "with the next message"], ["last", "with the last message"], ["last_per_subject", "with the last of each subject"], ["by_start_sequence", "at a sequence"], ["by_start_time", "at a time"]] }),
    /^by_/.test(given.deliver_policy) && field(app, given, "start", given.deliver_policy === "by_start_time" ? "Time" : "Sequence", { disabled: old, placeholder: given.deliver_policy === "by_start_time" ? "2026-01-31T12:00:00Z" : "1" }),
    field(app, given, "ack_policy", "Acknowledged", { disabled: old, options: [["explicit", "each message"], ["all", "all up to one"], ["none", "nothing"]] }),
    field(app, given, "ack_wait", "Comes again after", { placeholder: "30s" }),
    field(app, given, "max_deliver", "Deliveries", { placeholder: "no limit", inputmode: "numeric" }),
    field(app, given, "max_ack_pending", "Most in flight", { placeholder: "1000", inputmode: "numeric" }),
    field(app, given, "deliver_subject", "Pushed to", { disabled: old && !config.deliver_subject, placeholder: "clients pull" }),
    field(app, given, "dlq", "Dead letters go to", { placeholder: "nowhere, e.g. dead.orders" }));
}

function changeView(app, given, config) {
  try {
    if (given.view === "json") given.json = JSON.stringify(toConfig(given, config), null, 2);
    else Object.assign(given, fromConfig(JSON.parse(given.json)));
  } catch (error) {
    given.view = given.view === "json" ? "fields" : "json";
    app.toast(error.message, "bad");
  }
}

function fromConfig(config) {
  return {
    base: config, name: config.name || config.durable_name, filter: (config.filter_subjects || (config.filter_subject ? [config.filter_subject] : [])).join(", "),
    deliver_policy: config.deliver_policy, start: String(config.opt_start_seq || config.opt_start_time || ""), ack_policy: config.ack_policy, ack_wait: config.ack_wait ? duration(config.ack_wait, 9) : "",
    max_deliver: config.max_deliver > 0 ? String(config.max_deliver) : "", max_ack_pending: config.max_ack_pending > 0 ? String(config.max_ack_pending) : "",
    deliver_subject: config.deliver_subject || "", dlq: config.metadata?.["slipstream.dlq"] || "", description: config.description || "",
  };
}

function toConfig(given, config) {
  const { filter_subject: _one, filter_subjects: _many, opt_start_seq: _seq, opt_start_time: _time, ...base } = given.base || config || {};
  const filters = given.filter.split(/[\s,]+/).filter(Boolean);
  const wanted = { ...base, name: given.name.trim(), durable_name: given.name.trim(), deliver_policy: given.deliver_policy, ack_policy: given.ack_policy, description: given.description || undefined };
  if (!wanted.name) throw new Error("A consumer needs a name.");
  if (filters.length === 1) wanted.filter_subject = filters[0];
  else if (filters.length) wanted.filter_subjects = filters;
  if (given.deliver_policy === "by_start_sequence") wanted.opt_start_seq = readCount(given.start);
  if (given.deliver_policy === "by_start_time") wanted.opt_start_time = new Date(given.start).toISOString();
  if (given.ack_policy !== "none") {
    wanted.ack_wait = readDuration(given.ack_wait || "30s");
    wanted.max_deliver = readCount(given.max_deliver);
    wanted.max_ack_pending = readCount(given.max_ack_pending || "1000");
  }
  if (given.deliver_subject.trim()) wanted.deliver_subject = given.deliver_subject.trim();
  const metadata = Object.fromEntries(Object.entries(wanted.metadata || {}).filter(([name]) => !name.startsWith("_nats.") && name !== "slipstream.dlq"));
  if (given.dlq.trim()) metadata["slipstream.dlq"] = given.dlq.trim();
  wanted.metadata = metadata;
  return wanted;
}
