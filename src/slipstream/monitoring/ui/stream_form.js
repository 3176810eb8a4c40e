// Making and changing a stream: the usual settings as fields, all of them as JSON.

import { copiesField } from "./copies.js";
import { h } from "./dom.js";
import { bytes, duration, readCount, readDuration, readSize } from "./format.js";
import { choice, field, openForm } from "./widgets.js";

const size = (value) => (value > 0 ? bytes(value).replace(" ", "") : "");
const number = (value) => (value > 0 ? String(value) : "");
// What the server adds itself.
const ADDED = ["_nats.level", "_nats.req.level", "_nats.ver"];

/** Opens the form: of a stream's config, or of a new stream. */
export function streamForm(app, config) {
  const values = config ? fromConfig(config) : {
    name: "", subjects: "", storage: "file", retention: "limits", discard: "old", max_msgs: "", max_bytes: "", max_age: "",
    max_msgs_per_subject: "", max_msg_size: "", duplicate_window: "2m", description: "", num_replicas: "1", allow_direct: true, deny_delete: false, deny_purge: false,
  };
  values.view = "fields";
  openForm(app, {
    title: config ? `Change ${config.name}` : "New stream", values, action: config ? "Save" : "Create", wide: true,
    body: (given) => [
      choice(app, given, "view", [["fields", "Settings"], ["json", "JSON"]], () => changeView(app, given, config)),
      given.view === "json" ? field(app, given, "json", "Configuration", { rows: 22, class: "code" }) : fields(app, given, config),
    ],
    submit: async (given) => {
      const wanted = given.view === "json" ? JSON.parse(given.json) : toConfig(given, config);
      await app.js.api(`STREAM.${config ? "UPDATE" : "CREATE"}.${wanted.name}`, wanted);
      app.toast(config ? `${wanted.name} is changed` : `${wanted.name} is made`);
      await app.catalogue.refresh(true);
      app.go(`#/stream/${encodeURIComponent(wanted.name)}`);
      if (config) app.tick(true);
    },
  });
}

function fields(app, given, config) {
  const old = Boolean(config);
  return h("div", { class: "form" },
    field(app, given, "name", "Name", { disabled: old, autofocus: !old, required: true }),
    field(app, given, "subjects", "Subjects", { placeholder: "orders.>, returns.*", note: "Separated by commas." }),
    field(app, given, "description", "Description"),
    field(app, given, "storage", "Kept", { disabled: old, options: [["file", "on disk"], ["memory", "in memory"]] }),
    copiesField(app, field, given),
    field(app, given, "retention", "Until", { options: [["limits", "a limit is reached"], ["interest", "all consumers acknowledged"], ["workqueue", "one consumer acknowledged (work queue)"]] }),
    field(app, given, "discard", "When full", { options: [["old", "the oldest go"], ["new", "new ones are refused"]] }),
    field(app, given, "max_msgs", "Most messages", { placeholder: "no limit", inputmode: "numeric" }),
    field(app, given, "max_bytes", "Most bytes", { placeholder: "no limit, e.g. 10GiB" }),
    field(app, given, "max_age", "Oldest", { placeholder: "no limit, e.g. 7d" }),
    field(app, given, "max_msgs_per_subject", "Most a subject", { placeholder: "no limit", inputmode: "numeric" }),
    field(app, given, "max_msg_size", "Largest message", { placeholder: "no limit, e.g. 1MiB" }),
    field(app, given, "duplicate_window", "Duplicates known for", { placeholder: "2m" }),
    field(app, given, "allow_direct", "Answer direct gets", { type: "checkbox" }),
    field(app, given, "deny_delete", "Never delete single messages", { type: "checkbox", disabled: old && config.deny_delete }),
    field(app, given, "deny_purge", "Never purge", { type: "checkbox", disabled: old && config.deny_purge }));
}

function changeView(app, given, config) {
  try {
    if (given.view === "json") given.json = JSON.stringify(toConfig(given, config), null, 2);
    else Object.assign(given, fromConfig(JSON.parse(given.json)), { base: JSON.parse(given.json) });
  } catch (error) {
    given.view = given.view === "json" ? "fields" : "json";
    app.toast(error.message, "bad");
  }
}

function fromConfig(config) {
  return {
    base: config, name: config.name, subjects: (config.subjects || []).join(", "), storage: config.storage, retention: config.retention, discard: config.discard,
    max_msgs: number(config.max_msgs), max_bytes: size(config.max_bytes), max_age: config.max_age ? duration(config.max_age, 9) : "",
    max_msgs_per_subject: number(config.max_msgs_per_subject), max_msg_size: size(config.max_msg_size),
    duplicate_window: config.duplicate_window ? duration(config.duplicate_window, 9) : "", description: config.description || "",
    num_replicas: String(config.num_replicas || 1), allow_direct: Boolean(config.allow_direct), deny_delete: Boolean(config.deny_delete), deny_purge: Boolean(config.deny_purge),
  };
}

/** What was typed, over what the stream has beside it. A size that was not touched keeps its last byte. */
function toConfig(given, config) {
  const base = given.base || config || {};
  const before = given.base || config ? fromConfig(base) : {};
  const kept = (name, read) => (before[name] === given[name] ? base[name] : read(given[name]));
  const wanted = { ...base,
    name: given.name.trim(), subjects: given.subjects.split(/[\s,]+/).filter(Boolean), storage: given.storage, retention: given.retention, discard: given.discard,
    max_msgs: readCount(given.max_msgs), max_bytes: kept("max_bytes", readSize), max_age: kept("max_age", readDuration),
    max_msgs_per_subject: readCount(given.max_msgs_per_subject), max_msg_size: kept("max_msg_size", readSize),
    duplicate_window: kept("duplicate_window", readDuration), description: given.description || undefined,
    num_replicas: Number(given.num_replicas), allow_direct: given.allow_direct, deny_delete: given.deny_delete, deny_purge: given.deny_purge };
  if (wanted.metadata) wanted.metadata = Object.fromEntries(Object.entries(wanted.metadata).filter(([name]) => !ADDED.includes(name)));
  if (!wanted.name) throw new Error("A stream needs a name.");
  if (!wanted.subjects.length) delete wanted.subjects;
  return wanted;
}
