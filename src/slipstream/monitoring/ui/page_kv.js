// Buckets of keys and values: every key with its history, edited against the revision that was read, watched.

import { copiesField } from "./copies.js";
import { h } from "./dom.js";
import { asText, bytes, count, duration, moment, plural, preview, readCount, readDuration } from "./format.js";
import { badge, button, confirmTyped, empty, facts, field, head, isMissing, longTable, missing, openForm, payload, problem, search, timeCell } from "./widgets.js";

const KEYS_MAX = 50000;
const VALUES_MAX = 1000; // keys whose values are read with them
const WATCH_MS = 1000;
const CHANGES_AT_ONCE = 500;
const PREFIX = "KV_";

const buckets = { filter: "", sort: "Bucket" }; // between two visits

export function page(app, [bucket, ...rest]) {
  return bucket ? bucketPage(app, bucket, rest.join("/")) : listPage(app);
}

// --- all buckets ------------------------------------------------------------------------------------------------------

function listPage(app) {
  app.every(2000, () => app.catalogue.refresh());
  return { title: "Key-value", className: "fill", view: () => listView(app) };
}

const nameOf = (info) => info.config.name.slice(PREFIX.length);

function listView(app) {
  const { catalogue } = app;
  const items = catalogue.streams.filter((info) => info.config.name.startsWith(PREFIX) && nameOf(info).toLowerCase().includes(buckets.filter.toLowerCase()));
  const columns = [
    { name: "Bucket", class: "name", sort: nameOf, cell: (info) => [h("strong", {}, nameOf(info)), info.state.lost && badge("damaged", "bad"), info.config.storage === "memory" && badge("memory")] },
    { name: "Keys", class: "number", falling: true, sort: ({ state }) => state.num_subjects || 0, cell: ({ state }) => count(state.num_subjects || 0) },
    { name: "Revisions", class: "number mid", falling: true, sort: ({ state }) => state.last_seq, cell: ({ state }) => count(state.last_seq) },
    { name: "Size", class: "number", falling: true, sort: ({ state }) => state.bytes, cell: ({ state }) => bytes(state.bytes) },
    { name: "History", class: "number mid", cell: ({ config }) => count(config.max_msgs_per_subject) },
    { name: "Values live", class: "number wide", cell: ({ config }) => (config.max_age ? duration(config.max_age) : "for ever") },
  ];
  return [
    head("Key-value buckets", search(app, buckets, "Filter buckets"), button("New bucket", () => bucketForm(app), { class: "primary" })),
    problem(catalogue.error),
    longTable(app, buckets, {
      columns, items, key: (info) => info.config.name, label: "Buckets", className: "buckets", link: (info) => `#/kv/${encodeURIComponent(nameOf(info))}`,
      empty: catalogue.loaded ? "There are no buckets." : "Reading …",
    }),
  ];
}

function bucketForm(app) {
  openForm(app, {
    title: "New bucket", values: { name: "", history: "1", ttl: "", storage: "file", num_replicas: "1", description: "" }, action: "Create",
    body: (given) => h("div", { class: "form one" },
      field(app, given, "name", "Name", { autofocus: true, required: true }), field(app, given, "history", "Values kept of a key", { inputmode: "numeric", note: "1 to 64." }),
      field(app, given, "ttl", "Values live", { placeholder: "for ever, e.g. 1h" }), field(app, given, "storage", "Kept", { options: [["file", "on disk"], ["memory", "in memory"]] }), copiesField(app, field, given), field(app, given, "description", "Description")),
    submit: async (given) => {
      const name = given.name.trim();
      if (!/^[A-Za-z0-9_-]+$/.test(name)) throw new Error("A bucket's name has letters, digits, - and _.");
      const ttl = readDuration(given.ttl);
      await app.js.api(`STREAM.CREATE.${PREFIX}${name}`, {
        name: PREFIX + name, subjects: [`$KV.${name}.>`], storage: given.storage, description: given.description || undefined, max_msgs_per_subject: readCount(given.history), max_age: ttl, discard: "new",
        allow_rollup_hdrs: true, deny_delete: true, allow_direct: true, num_replicas: Number(given.num_replicas), duplicate_window: ttl ? Math.min(ttl, 120e9) : 120e9, allow_msg_ttl: true,
      });
      app.toast(`Bucket ${name} is made`);
      await app.catalogue.refresh(true);
      app.go(`#/kv/${encodeURIComponent(name)}`);
    },
  });
}

// --- one bucket -------------------------------------------------------------------------------------------------------

function bucketPage(app, bucket, key) {
  const state = { info: null, keys: new Map(), more: false, error: null, filter: "", list: { sort: "Key" }, chosen: key, entries: null, shape: {}, next: 0, changed: new Map(), watching: true };
  const subject = (name) => `$KV.${bucket}.${name}`;
  const model = { app, bucket, state, subject, stream: PREFIX + bucket };
  app.every(WATCH_MS, () => watch(model));
  return { title: bucket, className: "fill", view: () => bucketView(model) };
}

/** All keys once, then what changes. */
async function watch(model) {
  const { app, state, stream, bucket } = model;
  try {
    const info = await app.js.stream(stream);
    const first = !state.info;
    state.info = info;
    const { last_seq: last } = info.state;
    if (first || last - state.next > CHANGES_AT_ONCE) await readKeys(model);
    else if (last >= state.next) {
      for (const message of await app.js.read(info, { seq: state.next, batch: CHANGES_AT_ONCE })) learn(model, message);
    } else if ((info.state.num_subjects || 0) < state.keys.size) await readKeys(model);
    state.next = Math.max(state.next, last + 1);
    if (first && state.chosen) await readHistory(model);
    state.error = null;
  } catch (error) {
    state.error = error;
  }
  app.redraw();
}

async function readKeys({ app, state, stream, bucket }) {
  const { subjects, more } = await app.js.subjects(stream, `$KV.${bucket}.>`, KEYS_MAX);
  const skip = `$KV.${bucket}.`.length;
  const old = state.keys;
  state.keys = new Map(Object.entries(subjects).map(([subject, number]) => {
    const key = subject.slice(skip);
    return [key, { ...(old.get(key) || {}), key, number }];
  }));
  state.more = more;
  if (state.keys.size > VALUES_MAX || state.info.state.num_subjects === undefined) return;
  for (const message of await app.js.lasts(state.info, `$KV.${bucket}.>`)) {
    const known = state.keys.get(message.subject.slice(skip));
    if (known) Object.assign(known, { at: message.time, revision: message.seq, gone: operationOf(message) !== "PUT", value: message.data });
  }
}

function learn(model, message) {
  const { state, bucket } = model;
  const key = message.subject.slice(`$KV.${bucket}.`.length);
  const known = state.keys.get(key);
  state.keys.set(key, { key, number: (known?.number || 0) + 1, at: message.time, revision: message.seq, gone: operationOf(message) !== "PUT", value: message.data });
  if (key === state.chosen) readHistory(model).catch((error) => (state.error = error));
}

function operationOf(message) {
  const header = (name) => message.headers.find(([key]) => key.toLowerCase() === name)?.[1];
  return header("kv-operation") || (header("nats-marker-reason") ? "EXPIRED" : "PUT");
}

async function readHistory(model) {
  const { app, state, subject } = model;
  const key = state.chosen;
  const entries = [];
  for (let seq = 1; entries.length < 64; seq = entries.at(-1).seq + 1) {
    const page = await app.js.read(state.info, { seq, filter: subject(key), batch: 64 });
    entries.push(...page);
    if (page.length < 64) break;
  }
  if (key !== state.chosen) return;
  state.entries = entries.reverse();
  app.redraw();
}

function bucketView(model) {
  const { app, bucket, state } = model;
  const words = state.filter.toLowerCase();
  const all = [...state.keys.values()];
  const items = words ? all.filter(({ key }) => key.toLowerCase().includes(words)) : all;
  const columns = [
    { name: "Key", class: "name", sort: ({ key }) => key, cell: ({ key, gone }) => [h("code", {}, key), gone && badge("deleted")] },
    { name: "Value", class: "text wide", cell: ({ value }) => (value === undefined ? "" : app.hidesPayloads ? h("span", { class: "note" }, "hidden") : h("code", {}, preview(value, 80))) },
    { name: "Kept", class: "number", falling: true, sort: ({ number }) => number, cell: ({ number }) => count(number) },
    { name: "Changed", class: "number mid", falling: true, sort: ({ at }) => at || "", cell: ({ at }) => (at ? timeCell(at) : "") },
  ];
  return [
    head([h("a", { class: "up", href: "#/kv" }, "Key-value"), " ", bucket],
      state.info && !isMissing(state.error) && [h("span", { class: "note" }, `${plural(state.keys.size, "key")}${state.more ? " and more" : ""} · ${bytes(state.info.state.bytes)}`), search(app, state, "Filter keys"), button("New key", () => putForm(model, null), { class: "primary" }),
        h("a", { class: "as-button", href: `#/stream/${encodeURIComponent(PREFIX + bucket)}` }, "As a stream"), button("Delete bucket", () => removeBucket(model), { class: "danger" })]),
    isMissing(state.error) ? missing(`There is no bucket called ${bucket}.`, "#/kv", "All buckets") : problem(state.error),
    !isMissing(state.error) && h("div", { class: `split ${state.chosen ? "both" : ""}` },
      h("div", { class: "left" }, longTable(app, state.list, {
        columns, items, key: ({ key }) => key, label: "Keys", className: "keys-table", empty: state.info ? "There are no keys." : "Reading …",
        open: ({ key }) => {
          state.chosen = state.list.chosen = key;
          state.entries = null;
          readHistory(model).catch((error) => app.toast(error.message, "bad"));
          app.redraw();
        },
      })),
      state.chosen && detail(model)),
  ];
}

function detail(model) {
  const { app, state } = model;
  const [now, ...before] = state.entries || [];
  const close = () => {
    state.chosen = "";
    app.redraw();
  };
  return h("aside", { class: "detail", key: state.chosen, "aria-label": `Key ${state.chosen}` },
    h("div", { class: "bar" }, h("h2", {}, state.chosen), now && operationOf(now) !== "PUT" && badge("deleted"), button("Close", close, { class: "quiet" })),
    !state.entries ? h("p", { class: "note" }, "Reading …") : !now ? h("p", { class: "note" }, "There is no such key.") : [
      facts([["Revision", count(now.seq)], ["Changed", moment(now.time)]]),
      operationOf(now) === "PUT" && payload(app, state.shape, now.data),
      h("div", { class: "bar" },
        button("Edit", () => putForm(model, now), { disabled: operationOf(now) === "PUT" && asText(now.data) === null }),
        operationOf(now) === "PUT" && button("Delete", () => mark(model, "DEL"), { class: "danger" }), button("Purge", () => purgeKey(model), { class: "danger" })),
      before.length > 0 && h("section", { class: "history" }, h("h2", {}, "Before"), h("table", { class: "list" }, h("tbody", {}, before.map((entry) => h("tr", { key: entry.seq },
        h("td", {}, operationOf(entry) !== "PUT" ? badge(operationOf(entry).toLowerCase()) : app.hidesPayloads ? "hidden" : h("code", {}, preview(entry.data, 100))), h("td", { class: "number" }, count(entry.seq)), h("td", { class: "number" }, moment(entry.time).slice(0, 19)))))))]);
}

function putForm(model, entry) {
  const { app, state, subject, bucket } = model;
  const exists = entry && operationOf(entry) === "PUT";
  const before = exists ? asText(entry.data) || "" : "";
  openForm(app, {
    title: entry ? `Edit ${state.chosen}` : `New key in ${bucket}`, values: { key: entry ? state.chosen : "", value: before }, action: "Save", wide: true,
    body: (given) => h("div", { class: "form one" }, field(app, given, "key", "Key", { disabled: Boolean(entry), autofocus: !entry, required: true }),
      field(app, given, "value", "Value", { rows: 10, class: "code", autofocus: Boolean(entry) })),
    submit: async (given) => {
      const key = given.key.trim();
      if (!/^[-/_=.a-zA-Z0-9]+$/.test(key) || /^\.|\.$|\.\./.test(key)) throw new Error("A key has letters, digits and - / _ = . between them.");
      // Only over what was read: somebody else's change is not lost.
      await app.js.publish(subject(key), given.value, [["Nats-Expected-Last-Subject-Sequence", String(entry ? entry.seq : await lastRevision(model, key))]]);
      state.chosen = state.list.chosen = key;
      app.toast(`${key} is saved`);
      await watch(model);
      await readHistory(model);
    },
  });
}

/** A key that was deleted can be made anew; one that is there cannot. */
async function lastRevision({ app, stream, subject }, key) {
  const last = await app.js.get(stream, { last_by_subj: subject(key) });
  if (last && operationOf(last) === "PUT") throw new Error(`${key} is there already.`);
  return last ? last.seq : 0;
}

async function mark(model, operation) {
  const { app, state, subject } = model;
  await app.attempt(async () => {
    const rollup = operation === "PURGE" ? [["Nats-Rollup", "sub"]] : [];
    await app.js.publish(subject(state.chosen), "", [["KV-Operation", operation], ...rollup]);
    await watch(model);
    await readHistory(model);
  }, `${state.chosen} is ${operation === "DEL" ? "deleted" : "purged"}`);
}

function purgeKey(model) {
  const { app, state } = model;
  confirmTyped(app, { title: `Purge ${state.chosen}`, name: state.chosen, action: "Purge", text: "The value goes with its whole history. This cannot be undone.", submit: () => mark(model, "PURGE") });
}

function removeBucket({ app, bucket, stream, state }) {
  confirmTyped(app, {
    title: `Delete bucket ${bucket}`, name: bucket, action: "Delete", text: `All ${plural(state.keys.size, "key")} go with their history. This cannot be undone.`,
    submit: async () => {
      await app.js.api(`STREAM.DELETE.${stream}`);
      app.toast(`Bucket ${bucket} is deleted`);
      await app.catalogue.refresh(true);
      app.go("#/kv");
    },
  });
}
