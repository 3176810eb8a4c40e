// One stream: what it is, its messages, subjects and consumers.

import { consumersTab } from "./consumers.js";
import { copiesCard } from "./copies.js";
import { h } from "./dom.js";
import { bytes, count, moment, plural, rate, readCount } from "./format.js";
import { messagesTab } from "./messages.js";
import { publishForm } from "./publish_form.js";
import { streamForm } from "./stream_form.js";
import { subjectsTab } from "./subjects.js";
import { streamWords } from "./words.js";
import { button, chart, confirmTyped, facts, field, head, History, isMissing, missing, problem, Rate, tabs } from "./widgets.js";
import { kindOf } from "./page_streams.js";

const TABS = [["about", "About"], ["messages", "Messages"], ["subjects", "Subjects"], ["consumers", "Consumers"]];
const MADE = { messages: messagesTab, subjects: subjectsTab, consumers: consumersTab };

export function page(app, [name, tabName = "about"], query) {
  const state = { name, info: app.catalogue.find(name) || null, error: null, stored: new Rate(), messages: new History() };
  let tab = null;
  app.every(1500, async () => {
    try {
      state.info = await app.js.stream(name);
      state.error = null;
      state.stored.add(state.info.state.last_seq);
      state.messages.add(state.info.state.messages);
      if (tab?.learned) tab.learned(state.info);
    } catch (error) {
      state.error = error;
    }
    app.redraw();
  });
  if (MADE[tabName]) tab = MADE[tabName](app, state, query);
  return {
    title: name,
    className: tab ? "fill" : "",
    leave: () => tab?.leave && tab.leave(),
    view: () => [
      head([h("a", { class: "up", href: "#/streams" }, "Streams"), " ", name, " ", state.info && kindOf(state.info, state.stored.now)],
        state.info && !isMissing(state.error) && [button("Publish", () => publishForm(app, state.info)), button("Change", () => streamForm(app, state.info.config)), button("Purge", () => purge(app, state.info)), button("Delete", () => remove(app, state.info), { class: "danger" })]),
      tabs(app, tabName, TABS.map(([each, label]) => [each, label, `#/stream/${encodeURIComponent(name)}/${each}`])),
      isMissing(state.error) ? missing(`There is no stream called ${name}.`, "#/streams", "All streams") : [problem(state.error), tab ? tab.view() : state.info && about(app, state)],
    ],
  };
}

function about(app, { info, stored, messages }) {
  const { config, state } = info;
  const lost = state.lost;
  return [
    lost && h("p", { class: "notice bad", role: "alert" }, `Damage: ${plural(lost.msgs?.length ?? 0, "message")} and ${bytes(lost.bytes)} could not be read any more. The server's log names them.`),
    h("div", { class: "columns" },
      h("section", { class: "card words" }, h("h2", {}, "What it does"), config.description && h("p", { class: "lead" }, config.description), h("ul", {}, streamWords(config).map((text) => h("li", {}, text))),
        Object.keys(config.metadata || {}).length > 0 && h("details", {}, h("summary", {}, "Metadata"), facts(Object.entries(config.metadata)))),
      h("section", { class: "card" }, h("h2", {}, "What it holds"), facts([
        ["Messages", count(state.messages)], ["Size", bytes(state.bytes)], ["Subjects", count(state.num_subjects || 0)], ["Consumers", count(state.consumer_count)],
        ["First", state.messages ? `${count(state.first_seq)} · ${moment(state.first_ts)}` : "–"], ["Last", state.last_seq ? `${count(state.last_seq)} · ${moment(state.last_ts)}` : "–"],
        state.num_deleted && ["Gaps", count(state.num_deleted)], ["Made", moment(info.created)],
        info.mirror && ["Mirror lag", count(info.mirror.lag)], ...(info.sources || []).map((source) => [`Lag of ${source.name}`, count(source.lag)])]))),
    copiesCard(app, info, stored.now),
    h("div", { class: "columns" },
      h("section", { class: "card" }, h("h2", {}, "What comes in"), chart(stored.history.points, { label: stored.now === undefined ? "measuring …" : `${rate(stored.now)} stored`, format: rate })),
      h("section", { class: "card" }, h("h2", {}, "How much there is"), chart(messages.points, { label: plural(state.messages, "message") }))),
  ];
}

function purge(app, { config, state }) {
  confirmTyped(app, {
    title: `Purge ${config.name}`, name: config.name, action: "Purge", values: { filter: "", keep: "", seq: "" },
    text: `All ${plural(state.messages, "message")} go, or those that you name here. This cannot be undone.`,
    body: (given) => h("div", { class: "form" }, field(app, given, "filter", "Only subjects", { placeholder: "orders.eu.>" }),
      field(app, given, "keep", "Keep the last", { inputmode: "numeric" }), field(app, given, "seq", "Only before sequence", { inputmode: "numeric" })),
    submit: async (given) => {
      const body = {};
      if (given.filter.trim()) body.filter = given.filter.trim();
      if (given.keep.trim()) body.keep = readCount(given.keep);
      if (given.seq.trim()) body.seq = readCount(given.seq);
      const { purged } = await app.js.api(`STREAM.PURGE.${config.name}`, body);
      app.toast(`${plural(purged, "message")} purged`);
      app.tick(true);
    },
  });
}

function remove(app, { config, state }) {
  confirmTyped(app, {
    title: `Delete ${config.name}`, name: config.name, action: "Delete",
    text: `The stream goes with its ${plural(state.messages, "message")} and ${plural(state.consumer_count, "consumer")}. This cannot be undone.`,
    submit: async () => {
      await app.js.api(`STREAM.DELETE.${config.name}`);
      app.toast(`${config.name} is deleted`);
      await app.catalogue.refresh(true);
      app.go("#/streams");
    },
  });
}
