// Who is connected, what accounts do, which services answer, and what a subject is allowed to this user.

import { h } from "./dom.js";
import { bytes, count, duration, matches, overlaps, plural, short } from "./format.js";
import { badge, button, choice, empty, facts, head, longTable, plainTable, problem, search, tabs } from "./widgets.js";

const READ_MS = 3000;
const LIMIT = 1024;
const GATHER_MS = 700; // for the answers of several
const TABS = [["clients", "Connections"], ["accounts", "Accounts"], ["services", "Services"], ["rights", "Rights"]];

export function page(app, [tabName = "clients"]) {
  const tab = { clients, accounts, services, rights }[tabName] || clients;
  const { view, className } = tab(app);
  return { title: "Connections", className, view: () => [head("Connections"), tabs(app, tabName, TABS.map(([name, label]) => [name, label, `#/connections/${name}`])), view()] };
}

// --- connections ------------------------------------------------------------------------------------------------------

function clients(app) {
  const state = { rows: null, total: 0, scope: "", error: null, filter: "", list: { sort: "Id" }, chosen: 0, detail: null };
  app.every(READ_MS, async () => {
    try {
      const found = await ask(app, { limit: LIMIT, auth: true });
      Object.assign(state, found, { error: null });
    } catch (error) {
      state.error = error;
    }
    app.redraw();
  });
  return { className: "fill", view: () => clientsView(app, state) };
}

/** Of all accounts for a user of the system's, for any other of the own one: the server sees to that. */
async function ask(app, options) {
  const answers = [];
  const gather = async (subject) => {
    answers.length = 0;
    await app.nats.requestMany(subject, JSON.stringify(options), (msg) => {
      answers.push(msg.json());
      return !app.hasPeers;
    }, { timeout: GATHER_MS + (app.hasPeers ? 0 : 4000) });
  };
  try {
    await gather("$SYS.REQ.SERVER.PING.CONNZ");
  } catch (error) {
    if (!["denied", "nobody"].includes(error.kind)) throw error;
    await gather("$SYS.REQ.ACCOUNT.PING.CONNZ");
  }
  const failed = answers.find(({ error }) => error);
  if (failed) throw new Error(failed.error.description);
  const rows = answers.flatMap(({ server, data }) => (data.connections || []).map((each) => ({ ...each, server: server.name, id: `${server.id} ${each.cid}` })));
  const scope = app.user && app.user.account === app.systemAccount ? "all accounts" : "this account";
  return { rows, scope, total: answers.reduce((sum, { data }) => sum + (data.total || 0), 0) };
}

const userOf = (each) => each.authorized_user || "";

function clientsView(app, state) {
  const words = state.filter.toLowerCase();
  const items = (state.rows || []).filter((each) => !words || `${each.cid} ${each.name || ""} ${userOf(each)} ${each.account || ""} ${each.ip} ${each.lang || ""} ${each.server}`.toLowerCase().includes(words));
  const number = (name, field, format, more = {}) => ({ name, class: `number ${more.class || ""}`, falling: true, sort: (each) => each[field] || 0, cell: (each) => format(each[field] || 0) });
  const columns = [
    { name: "Id", class: "number", sort: ({ cid }) => cid, cell: ({ cid }) => count(cid) },
    { name: "Name", class: "name", sort: (each) => each.name || "", cell: (each) => [h("strong", {}, each.name || "–"), " ", h("span", { class: "note" }, each.lang || "")] },
    { name: "User", class: "mid", sort: userOf, cell: (each) => userOf(each) || h("span", { class: "note" }, each.account || "") },
    { name: "From", class: "wide", sort: ({ ip }) => ip, cell: ({ ip, port, type }) => [`${ip}:${port}`, type === "websocket" ? badge("web") : null] },
    number("In", "in_msgs", short), number("Out", "out_msgs", short),
    number("Subs", "subscriptions", short, { class: "mid" }), number("Waiting", "pending_bytes", bytes, { class: "wide" }),
    { name: "Round trip", class: "number wide", cell: ({ rtt }) => rtt || "–" },
  ];
  const chosen = (state.rows || []).find(({ id }) => id === state.chosen);
  return [
    h("div", { class: "bar" }, search(app, state, "Filter connections"), h("span", { class: "note" }, state.rows ? `${plural(state.total, "connection")} of ${state.scope}${state.total > state.rows.length ? `, ${count(state.rows.length)} shown` : ""}` : "Reading …")),
    problem(state.error),
    h("div", { class: `split ${chosen ? "both" : ""}` },
      h("div", { class: "left" }, longTable(app, Object.assign(state.list, { chosen: state.chosen }), {
        columns, items, key: ({ id }) => id, label: "Connections", className: "clients", empty: state.rows ? "Nobody is connected." : "Reading …",
        open: (each) => {
          state.chosen = each.id;
          state.detail = null;
          ask(app, { cid: each.cid, subscriptions: true, auth: true }).then(({ rows }) => (state.detail = rows.find(({ id }) => id === each.id)), (error) => app.toast(error.message, "bad")).finally(() => app.redraw());
          app.redraw();
        },
      })),
      chosen && clientDetail(app, state, chosen)),
  ];
}

function clientDetail(app, state, each) {
  const list = state.detail?.subscriptions_list;
  return h("aside", { class: "detail", key: each.id, "aria-label": `Connection ${each.cid}` },
    h("div", { class: "bar" }, h("h2", {}, each.name || `Connection ${each.cid}`), button("Close", () => {
      state.chosen = 0;
      app.redraw();
    }, { class: "quiet" })),
    facts([["From", `${each.ip}:${each.port}`], ["Kind", `${each.type || each.kind}${each.tls_version ? `, TLS ${each.tls_version}` : ""}`], ["Client", `${each.lang || "–"} ${each.version || ""}`], userOf(each) && ["User", userOf(each)], each.account && ["Account", each.account], ["Server", each.server],
      ["Here for", each.uptime], ["Idle for", each.idle], ["Round trip", each.rtt || "–"], ["In", `${count(each.in_msgs)} · ${bytes(each.in_bytes)}`], ["Out", `${count(each.out_msgs)} · ${bytes(each.out_bytes)}`], ["Waiting", bytes(each.pending_bytes)]]),
    h("h2", {}, plural(each.subscriptions || 0, "subscription")),
    list ? h("ul", { class: "subjects-list" }, list.slice(0, 500).map((subject, at) => h("li", { key: at }, h("code", {}, subject)))) : h("p", { class: "note" }, state.detail ? "None." : "Reading …"));
}

// --- accounts ---------------------------------------------------------------------------------------------------------

function accounts(app) {
  const state = { rows: null, error: null };
  app.every(READ_MS, async () => {
    try {
      // All accounts stand at the monitoring port; a proxy before it may show less.
      const all = await fetch("../accstatz?unused=1").then((answer) => (answer.ok ? answer.json() : null)).catch(() => null);
      state.rows = all?.account_statz || (await app.nats.request("$SYS.REQ.ACCOUNT.PING.STATZ")).json().data.account_statz;
      state.error = null;
    } catch (error) {
      state.error = error;
    }
    app.redraw();
  });
  const columns = [["Account"], ["Connections", "number"], ["Subscriptions", "number wide"], ["Messages in", "number"], ["Bytes in", "number wide"], ["Messages out", "number"], ["Bytes out", "number wide"], ["Slow consumers", "number wide"]];
  return { className: "", view: () => [problem(state.error), state.rows ? plainTable(columns, state.rows.map((each) => Object.assign([each.name || each.acc, count(each.conns), count(each.num_subscriptions), count(each.received.msgs), bytes(each.received.bytes), count(each.sent.msgs), bytes(each.sent.bytes), count(each.slow_consumers || 0)], { key: each.acc }))) : !state.error && empty("Reading …")] };
}

// --- services ---------------------------------------------------------------------------------------------------------

function services(app) {
  const state = { rows: null, error: null };
  app.every(2 * READ_MS, async () => {
    const found = [];
    try {
      await app.nats.requestMany("$SRV.INFO", "", (msg) => {
        found.push(msg.json());
        return found.length >= LIMIT;
      }, { timeout: GATHER_MS });
      state.error = null;
    } catch (error) {
      state.error = ["nobody", "late"].includes(error.kind) ? null : error;
    }
    state.rows = found;
    app.redraw();
  });
  const row = (each) => Object.assign([each.name, each.version, h("code", {}, (each.endpoints || []).map(({ subject }) => subject).join(", ")), each.description || "", h("code", {}, each.id)], { key: each.id });
  return { className: "", view: () => [problem(state.error), state.rows ? plainTable([["Service"], ["Version"], ["Subjects"], ["Description"], ["Instance"]], state.rows.map(row), "No service answers on $SRV.INFO.") : empty("Asking …")] };
}

// --- rights -----------------------------------------------------------------------------------------------------------

/** What a list of rights says of a subject: [allowed, why]. `wide`: a subscription, which may have wildcards. */
export function judge(list, subject, wide) {
  const { allow = [], deny = [] } = list || {};
  const plain = (pattern) => pattern.split(" ")[0];
  const stop = deny.find((pattern) => matches(plain(pattern), subject));
  if (stop) return [false, `denied by ${stop}`];
  if (allow.length) {
    const by = allow.find((pattern) => matches(plain(pattern), subject));
    if (!by) return [false, "not in the list of what is allowed"];
    const part = wide && deny.find((pattern) => overlaps(plain(pattern), subject));
    return [true, part ? `allowed by ${by}, without what ${part} denies` : `allowed by ${by}`];
  }
  const part = wide && deny.find((pattern) => overlaps(plain(pattern), subject));
  return [true, part ? `allowed, without what ${part} denies` : "everything is allowed that is not denied"];
}

function rights(app) {
  const state = { verb: "publish", subject: "" };
  return { className: "", view: () => rightsView(app, state) };
}

function rightsView(app, state) {
  const { user } = app;
  if (!user) return empty("This user may not ask what it may: $SYS.REQ.USER.INFO.");
  const subject = state.subject.trim();
  const valid = subject && !/\s|\.\.|^\.|\.$/.test(subject) && (state.verb === "subscribe" || !/(^|\.)[*>](\.|$)/.test(subject));
  const [allowed, why] = valid ? judge(user.permissions?.[state.verb], subject, state.verb === "subscribe") : [];
  const shown = (list) => (list?.length ? h("ul", { class: "subjects-list" }, list.map((each, at) => h("li", { key: at }, h("code", {}, each)))) : "–");
  return [
    h("section", { class: "card" }, h("h2", {}, "May I?"),
      h("div", { class: "bar" }, choice(app, state, "verb", [["publish", "Publish"], ["subscribe", "Subscribe"]]),
        h("input", { class: "subject search", "aria-label": "Subject", placeholder: "orders.eu.1", value: state.subject, oninput: (event) => {
          state.subject = event.target.value;
          app.redraw();
        } }),
        subject && (valid ? [badge(allowed ? "yes" : "no", allowed ? "ok" : "bad"), h("span", { class: "note" }, why)] : h("span", { class: "note" }, "That is no subject for this.")))),
    h("section", { class: "card" }, h("h2", {}, "This user"), facts([["User", user.user_name || user.user || "without a name"], ["Account", user.account_name || user.account], user.expires && ["Ends in", duration(user.expires)],
      ["May publish to", user.permissions?.publish?.allow?.length ? shown(user.permissions.publish.allow) : "everything"], user.permissions?.publish?.deny?.length && ["but not to", shown(user.permissions.publish.deny)],
      ["May subscribe to", user.permissions?.subscribe?.allow?.length ? shown(user.permissions.subscribe.allow) : "everything"], user.permissions?.subscribe?.deny?.length && ["but not to", shown(user.permissions.subscribe.deny)],
      user.permissions?.responses && ["May answer", `${user.permissions.responses.max < 0 ? "without limit" : plural(user.permissions.responses.max, "time")}`]])),
  ];
}
